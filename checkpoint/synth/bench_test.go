package synth_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
)

func BenchmarkWrite(b *testing.B) {
	for _, dtype := range []checkpoint.DType{checkpoint.BF16, checkpoint.F32} {
		b.Run(fmt.Sprintf("dtype=%s", dtype), func(b *testing.B) {
			s := synth.Tiny("mixtral")
			s.DType, s.Hidden, s.ExpertIntermediate, s.Layers = dtype, 1024, 1024, 2
			bytes, _, err := s.Size()
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(bytes)
			for i := 0; b.Loop(); i++ {
				if err := synth.Write(filepath.Join(b.TempDir(), fmt.Sprint(i)), s, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
