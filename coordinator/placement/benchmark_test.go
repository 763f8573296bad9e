package placement

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// BenchmarkCompute is of DeepSeek-V3's experts in two parts on 32 hosts with two nodes each: fresh, and after a host has left.
func BenchmarkCompute(b *testing.B) {
	m := Model{Experts: 256, Parts: 2, PartBytes: []int64{12 << 20, 11 << 20}, TopK: 8}
	counts := map[int][]float64{}
	for layer := 3; layer < 61; layer++ {
		m.Layers = append(m.Layers, layer)
		for e := range m.Experts {
			counts[layer] = append(counts[layer], 1e4/math.Sqrt(float64((e*89+layer*31)%256+1)))
		}
	}
	pairs := map[int][]float64{}
	for layer, n := range counts {
		pairs[layer] = make([]float64, m.Experts*m.Experts)
		for i := range pairs[layer] {
			a, b := i/m.Experts, i%m.Experts
			pairs[layer][i] = min(n[a], n[b]) * float64((a*b*31+a+b)%100) / 1000
		}
	}
	var workers []Worker
	for i := range 64 {
		workers = append(workers, Worker{ID: fmt.Sprintf("w%02d", i), Host: fmt.Sprint("h", i/2), Node: i % 2, Capacity: 12 << 30})
	}
	for _, few := range []int{2, 64} {
		b.Run(fmt.Sprintf("pairs/workers=%d", few), func(b *testing.B) {
			some := slices.Clone(workers[:few])
			for i := range some {
				some[i].Capacity = 0
			}
			for b.Loop() {
				if _, err := Compute(1, m, some, Options{Counts: counts, Pairs: pairs}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, replicas := range []int{1, 2} {
		o := Options{Counts: counts, Replicas: replicas}
		b.Run(fmt.Sprintf("replicas=%d/fresh", replicas), func(b *testing.B) {
			for b.Loop() {
				if _, err := Compute(1, m, workers, o); err != nil {
					b.Fatal(err)
				}
			}
		})
		var err error
		if o.Previous, err = Compute(1, m, workers, o); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("replicas=%d/host-left", replicas), func(b *testing.B) {
			for b.Loop() {
				p, err := Compute(2, m, workers[2:], o)
				if err != nil {
					b.Fatal(err)
				}
				parts, _ := p.Moved(m, o.Previous)
				b.ReportMetric(float64(parts), "moved")
			}
		})
	}
}
