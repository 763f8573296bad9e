package model

import (
	"testing"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/kernels"
)

// TestSizeOf: without the weights the size is what it is with them, of every family.
func TestSizeOf(t *testing.T) {
	t.Parallel()
	for _, family := range synth.Families() {
		cp := synthetic(t, synth.Tiny(family))
		for _, format := range []kernels.Format{kernels.Q8, kernels.BF16, kernels.FP8} {
			want, err := Bytes(cp, format)
			if err != nil {
				t.Fatal(err)
			}
			got := SizeOf(cp.Config(), format)
			if got.Bytes != want || got.Weights < int64(cp.Config().Vocabulary*cp.Config().Hidden) {
				t.Errorf("%s in %v: %+v, with its weights %d bytes", family, format, got, want)
			}
		}
	}
}
