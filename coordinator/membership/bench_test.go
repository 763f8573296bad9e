package membership

import (
	"fmt"
	"testing"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// BenchmarkTable shows what a second costs a coordinator for each worker: a beat, and its share of four ticks. The model is of
// DeepSeek-V3's size.
func BenchmarkTable(b *testing.B) {
	model := placement.Model{Experts: 256, Parts: 1, PartBytes: []int64{44 << 20}}
	for layer := 3; layer < 61; layer++ {
		model.Layers = append(model.Layers, layer)
	}
	for _, n := range []int{8, 64, 1024} {
		t := newTable("me", testIdentity, 7, nil, nil)
		beats := make([]*transport.Beat, n)
		for i := range beats {
			id := fmt.Sprintf("w%04d", i)
			beats[i] = idle(id, "i"+id)
			t.beat(beats[i])
		}
		t.await(n)
		plan, err := placement.Compute(1, model, t.pending.workers, placement.Options{})
		if err != nil {
			b.Fatal(err)
		}
		t.computed(t.pending, plan, nil)
		for i := range beats {
			beats[i] = ready(beats[i].Worker, 1)
			t.beat(beats[i])
		}
		t.committed(t.pending, nil)
		if !t.allCovered() {
			b.Fatal("not ready")
		}
		b.Run(fmt.Sprintf("workers=%d/second", n), func(b *testing.B) {
			for b.Loop() {
				for range ticksPerSecond {
					t.tick()
				}
				for i := range beats {
					t.beat(beats[i])
				}
			}
		})
		b.Run(fmt.Sprintf("workers=%d/loss", n), func(b *testing.B) {
			for b.Loop() {
				t.unreachable(beats[0].Worker)
				t.tick()
				t.beat(beats[0])
			}
		})
	}
}
