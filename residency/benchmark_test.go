package residency

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// requests are n requests for wanted of each layer's parts, layer after layer; the parts with low numbers are wanted more often.
func requests(n, layers, parts, wanted int) [][]uint32 {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([][]uint32, n)
	for i := range all {
		for len(all[i]) < wanted {
			id := uint32(float64(parts) * r.Float64() * r.Float64())
			if !slices.Contains(all[i], id) {
				all[i] = append(all[i], id)
			}
		}
		slices.Sort(all[i])
	}
	return all
}

// large is a ledger of 100 layers of 128 parts, with room for a number of them, that has seen some tokens.
func large(tb testing.TB, policy string, resident int) (l *Ledger, asked [][]uint32) {
	p, err := Parse(policy)
	if err != nil {
		tb.Fatal(err)
	}
	const layers, parts = 100, 128
	o := Options{Limit: int64(resident), Policy: p, Parts: parts, Bytes: func(Part) int64 { return 1 }}
	for layer := range layers {
		o.Layers = append(o.Layers, layer)
	}
	if l, err = New(o); err != nil {
		tb.Fatal(err)
	}
	asked = requests(100*layers, layers, parts, 8)
	for i, ids := range asked {
		l.Request(i%layers, ids)
	}
	return l, asked
}

// TestRequestAllocatesNothing: a request is on the way of each layer of each token.
func TestRequestAllocatesNothing(t *testing.T) {
	for _, policy := range Names {
		l, asked := large(t, policy, 3000)
		i := 0
		if n := testing.AllocsPerRun(5000, func() {
			l.Request(i%100, asked[i])
			i++
		}); n != 0 {
			t.Errorf("%s: a request allocates %v times", policy, n)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	for _, policy := range Names {
		for _, resident := range []int{3000, 10000} {
			b.Run(fmt.Sprintf("policy=%s/resident=%d", policy, resident), func(b *testing.B) {
				l, asked := large(b, policy, resident)
				if l.Used() != int64(resident) {
					b.Fatalf("%d parts are resident", l.Used())
				}
				before := l.Counters()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					l.Request(i%100, asked[i%len(asked)])
				}
				after := l.Counters()
				b.ReportMetric(float64(after.Misses-before.Misses)/float64(after.Requests-before.Requests), "misses/op")
			})
		}
	}
}

func BenchmarkClone(b *testing.B) {
	l, _ := large(b, Names[0], 10000)
	for b.Loop() {
		l.Clone()
	}
}
