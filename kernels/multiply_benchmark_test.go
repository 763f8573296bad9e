package kernels

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// BenchmarkMultiply multiplies a matrix of an expert's size, which stays in the cache. MB/s are of packed weights; the best call is
// what counts on a machine that is shared.
func BenchmarkMultiply(b *testing.B) {
	for _, f := range Formats() {
		for _, rows := range []int{1, 8, 64, 512} {
			benchmarkMultiply(b, f, 768, 2048, rows)
		}
	}
}

func benchmarkMultiply(b *testing.B, f Format, outputs, columns, rows int) {
	in := newInputs(b, 1, ordinary)
	// Packed once for one block; the others are copies, since only their place matters.
	m := in.matrix(f, BlockOutputs, columns)
	block := m.Data
	m.Outputs, m.Data = outputs, nil
	for _, name := range Available() {
		s, err := Select(name)
		if err != nil {
			b.Fatal(err)
		}
		a := in.activations(f.Quantized(), rows, columns)
		index := make([]int32, rows)
		for i := range index {
			index[i] = int32(i)
		}
		dst := make([]float32, rows*outputs)
		b.Run(fmt.Sprintf("format=%v/rows=%d/kernels=%s", f, rows, name), func(b *testing.B) {
			if m.Data == nil {
				m.Data = make([]byte, MatrixBytes(f, outputs, columns))
				for rest := m.Data; len(rest) > 0; rest = rest[len(block):] {
					copy(rest, block)
				}
			}
			b.SetBytes(int64(len(m.Data)))
			best := time.Duration(math.MaxInt64)
			for b.Loop() {
				start := time.Now()
				s.Multiply(dst, outputs, m, a, index, 0, outputs)
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(b.N)*float64(rows*outputs*columns)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			b.ReportMetric(float64(rows*outputs*columns)/best.Seconds()/1e9, "best-GMAC/s")
		})
	}
}
