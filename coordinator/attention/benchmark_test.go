package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkRun is attention of a layer of Qwen3-30B's shape: one row (decode) or the last 512 rows (prefill) of a context. Each call takes
// another of some caches, so that decode reads from memory as a model of many layers does. gbps is the visible part of K and V over the
// time of the best call, gflops the products' multiplications and additions.
func BenchmarkRun(b *testing.B) {
	const heads = 32
	for _, rows := range []int{1, 512} {
		for _, context := range []int{128, 2048, 8192} {
			for _, format := range benchmarkFormats {
				for _, threads := range []int{1, 2} {
					b.Run(fmt.Sprintf("rows=%d/context=%d/kv=%s/threads=%d", rows, context, format, threads), func(b *testing.B) {
						benchmarkRun(b, Shape{Layers: 1, KVHeads: 4, HeadDim: 128, Format: format}, heads, rows, max(context, rows), threads)
					})
				}
			}
		}
	}
}

func benchmarkRun(b *testing.B, shape Shape, heads, rows, context, threads int) {
	set := selectSet(b, "")
	a, err := New(set, newTeam(b, threads), shape, heads)
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	values := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(random.NormFloat64())
		}
		return x
	}
	caches := make([]*Cache, 1)
	if rows == 1 { // more than the caches of the CPU hold
		caches = make([]*Cache, min(64, 1+1<<30/(context*shape.PositionBytes())))
	}
	k, v := values(shape.KVHeads*shape.HeadDim+context), values(shape.KVHeads*shape.HeadDim+context)
	for i := range caches {
		caches[i] = newCache(b, shape)
		if err := caches[i].Reserve(context); err != nil {
			b.Fatal(err)
		}
		for p := range context {
			caches[i].Store(set, 0, p, k[p:p+shape.KVHeads*shape.HeadDim], v[p:p+shape.KVHeads*shape.HeadDim])
		}
	}
	n := heads * shape.HeadDim
	q, out := values(rows*n), make([]float32, rows*n)
	batch := make([]Row, rows)
	keys := 0
	for r := range batch {
		batch[r] = Row{Position: context - rows + r, Q: q[r*n : (r+1)*n], Out: out[r*n : (r+1)*n]}
		keys += batch[r].Position + 1
	}
	best := time.Duration(math.MaxInt64)
	for i := 0; b.Loop(); i++ {
		for r := range batch {
			batch[r].Cache = caches[i%len(caches)]
		}
		start := time.Now()
		if err := a.Run(0, 0, batch); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best.Nanoseconds())/1e3, "best-µs")
	b.ReportMetric(float64(context*shape.PositionBytes())/float64(best.Nanoseconds()), "best-gbps")
	b.ReportMetric(4*float64(keys*n)/float64(best.Nanoseconds()), "best-gflops")
}

var benchmarkFormats = []Format{F32, BF16, Int8}
