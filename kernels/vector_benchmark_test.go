package kernels

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// BenchmarkVector runs the functions on vectors of a layer's size; the best call is what counts on a machine that is shared.
func BenchmarkVector(b *testing.B) {
	in := newInputs(b, 2, ordinary)
	x, y := in.floats(2048), in.floats(2048)
	out, sum := make([]float32, 2048), make([]int64, 2048)
	for _, c := range []struct {
		name string
		call func(s *Set)
	}{
		{"SiLUMultiply/n=768", func(s *Set) { s.SiLUMultiply(out[:768], x[:768], y[:768]) }},
		{"Softmax/n=2048", func(s *Set) { copy(out, x); s.Softmax(out) }},
		{"Accumulate/n=2048", func(s *Set) { clear(sum); _ = s.Accumulate(sum, x[:2048], 0.5) }},
		{"FromFixed/n=2048", func(s *Set) { s.FromFixed(out, sum) }},
	} {
		for _, name := range Available() {
			s, err := Select(name)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/kernels=%s", c.name, name), func(b *testing.B) {
				best := time.Duration(math.MaxInt64)
				for b.Loop() {
					start := time.Now()
					c.call(s)
					best = min(best, time.Since(start))
				}
				b.ReportMetric(float64(best.Nanoseconds()), "best-ns")
			})
		}
	}
}
