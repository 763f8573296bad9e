package kernels

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkMultiplyFromMemory multiplies one row with a matrix that fits no cache, in pieces of about 1 MiB. GB/s are those of
// all threads when pieces take as long as the quickest tenth of them, and half of them: on a machine that is shared, whole passes
// say more of the neighbours.
func BenchmarkMultiplyFromMemory(b *testing.B) {
	const columns, mebibytes, pieceBytes = 2048, 768, 1 << 20
	for _, f := range Formats() {
		in := newInputs(b, 1, ordinary)
		m := in.matrix(f, BlockOutputs, columns)
		block := m.Data
		m.Outputs, m.Data = mebibytes<<20/len(block)*BlockOutputs, nil
		a, dst := in.activations(f.Quantized(), 1, columns), make([]float32, m.Outputs)
		piece := pieceBytes / len(block) * BlockOutputs
		for _, name := range Available() {
			s, err := Select(name)
			if err != nil {
				b.Fatal(err)
			}
			if s == &generic {
				continue // bound by computing
			}
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("format=%v/kernels=%s/threads=%d", f, name, threads), func(b *testing.B) {
					if m.Data == nil {
						m.Data = slices.Repeat(block, m.Outputs/BlockOutputs)
					}
					took, share := make([][]time.Duration, threads), m.Outputs/piece/threads*piece
					for b.Loop() {
						var pass sync.WaitGroup
						for t := range threads {
							pass.Go(func() {
								for o := t * share; o < (t+1)*share; o += piece {
									start := time.Now()
									s.Multiply(dst, m.Outputs, m, a, []int32{0}, o, o+piece)
									took[t] = append(took[t], time.Since(start))
								}
							})
						}
						pass.Wait()
					}
					all := slices.Concat(took...)
					slices.Sort(all)
					rate := func(t time.Duration) float64 {
						return float64(threads*piece/BlockOutputs*len(block)) / t.Seconds() / 1e9
					}
					b.ReportMetric(rate(all[len(all)/10]), "quick-GB/s")
					b.ReportMetric(rate(all[len(all)/2]), "median-GB/s")
				})
			}
		}
	}
}
