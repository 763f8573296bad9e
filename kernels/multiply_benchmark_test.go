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
			benchmarkMultiply(b, f, 768, 2048, rows, "")
		}
	}
}

// BenchmarkMultiplyFromMemory multiplies matrices that don't fit a cache: MB/s is what one thread reads from memory.
func BenchmarkMultiplyFromMemory(b *testing.B) {
	for _, f := range Formats() {
		for _, mebibytes := range []int{64, 512} {
			const columns = 2048
			outputs := mebibytes << 20 / blockBytes(f, columns) * BlockOutputs
			benchmarkMultiply(b, f, outputs, columns, 1, fmt.Sprintf("MiB=%d/", mebibytes))
		}
	}
}

func benchmarkMultiply(b *testing.B, f Format, outputs, columns, rows int, size string) {
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
		if size != "" && s == &generic {
			continue // bound by computing
		}
		a := in.activations(f.Quantized(), rows, columns)
		index := make([]int32, rows)
		for i := range index {
			index[i] = int32(i)
		}
		dst := make([]float32, rows*outputs)
		b.Run(fmt.Sprintf("format=%v/%srows=%d/kernels=%s", f, size, rows, name), func(b *testing.B) {
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
