package budget

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/moepool/moepool/coordinator/router"
)

// BenchmarkApply decides for rows of 8 of 128 experts, a third of which are in memory.
func BenchmarkApply(b *testing.B) {
	const experts, k = 128, 8
	for _, text := range []string{"4", "mass=0.1", "topp=0.7,fill", "4,bytes=1MiB,mass=0.1,topp=0.9,fill=32"} {
		for _, n := range []int{1, 8, 64} {
			p, err := Parse(text)
			if err != nil {
				b.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 2))
			rows, candidates, phases := make([]router.Choice, n), make([]router.Choice, n), make([]Phase, n)
			for i := range rows {
				probabilities := make([]float32, experts)
				for j := range probabilities {
					probabilities[j] = random.Float32()
				}
				router.Largest(&rows[i], probabilities, k)
				router.Candidates(&candidates[i], probabilities, p.Candidates(k), 1)
				phases[i] = Decode
			}
			batch := &Batch{Phases: phases, Candidates: candidates, Normalize: true,
				Resident: func(id int32) bool { return id%3 == 0 },
				Missing:  func(id int32, part func(int, int64)) { part(int(id)%2, 1<<18) }}
			b.Run(fmt.Sprintf("policy=%s/rows=%d", text, n), func(b *testing.B) {
				var c Cutter
				work := clone(rows)
				batch.Rows = work
				for b.Loop() {
					for i := range rows {
						work[i].Experts, work[i].Weights = append(work[i].Experts[:0], rows[i].Experts...), append(work[i].Weights[:0], rows[i].Weights...)
					}
					c.Apply(p, batch)
				}
			})
		}
	}
}
