package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkMultiply(b *testing.B) {
	const outputs, columns = 768, 2048
	for _, f := range Formats() {
		m := Matrix{f, outputs, columns, make([]byte, MatrixBytes(f, outputs, columns))}
		if err := Pack(m, func(o int, dst []float32) {
			r := rand.New(rand.NewPCG(1, uint64(o)))
			for i := range dst {
				dst[i] = float32(r.NormFloat64())
			}
		}); err != nil {
			b.Fatal(err)
		}
		for _, rows := range []int{1, 8, 64} {
			for _, name := range Available() {
				s, _ := Select(name)
				var a Activations
				a.Reset(f.Quantized(), rows, columns)
				x := make([]float32, columns)
				r := rand.New(rand.NewPCG(2, 2))
				index := make([]int32, rows)
				for i := range rows {
					for j := range x {
						x[j] = float32(r.NormFloat64())
					}
					s.Prepare(&a, i, x)
					index[i] = int32(i)
				}
				dst := make([]float32, rows*outputs)
				b.Run(fmt.Sprintf("format=%v/rows=%d/kernels=%s", f, rows, name), func(b *testing.B) {
					b.SetBytes(int64(len(m.Data)))
					for b.Loop() {
						s.Multiply(dst, outputs, m, &a, index, 0, outputs)
					}
					b.ReportMetric(float64(b.N)*float64(rows*outputs*columns)/b.Elapsed().Seconds()/1e9, "GMAC/s")
				})
			}
		}
	}
}
