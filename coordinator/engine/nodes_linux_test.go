package engine_test

import (
	"testing"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/numa"
)

// nodesTeam has threads on two nodes that share one CPU, so that every machine has it.
func nodesTeam(t *testing.T, threads int) *team.Team {
	t.Helper()
	cpus, err := numa.ThreadAffinity(0)
	if err != nil {
		t.Fatal(err)
	}
	tm, err := team.NewOnNodes(threads, []numa.Node{{ID: 0, Cores: cpus[:1]}, {ID: 1, Cores: cpus[:1]}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tm.Close)
	if !tm.Pinned() {
		t.Skip("SKIPPED: this process may not set the affinity of its threads")
	}
	if len(tm.Nodes()) != 2 {
		t.Fatalf("the team is on nodes %v", tm.Nodes())
	}
	return tm
}

// Dense weights that are split over the threads of nodes give the bits that those of one node give.
func TestSameBitsOnNodes(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"qwen2_moe", "qwen3_moe", "mixtral"} {
		cp := synthetic(t, family, nil)
		x := newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1)
		tokens := randomTokens(9, cp.Config().Vocabulary, 3)
		want := variant{}.logits(t, newEngine(t, cp, x, kernels.Q8, nil), tokens)
		for _, threads := range []int{2, 3} {
			e := newEngine(t, cp, x, kernels.Q8, func(o *engine.Options) { o.Team = nodesTeam(t, threads) })
			if placement, _ := e.DensePlacement(); len(placement) != 2 {
				t.Fatalf("dense weights lie on %v", placement)
			}
			mustEqualBits(t, variant{}.logits(t, e, tokens), want, cp.Config().Vocabulary)
		}
	}
}

// Layers allocate nothing on several nodes either. Not parallel, as AllocsPerRun demands.
func TestLayersDoNotAllocateOnNodes(t *testing.T) {
	allocations := func(layers int) float64 {
		cp := synthetic(t, "qwen2_moe", func(s *synth.Spec) { s.Layers = layers })
		e, err := engine.New(cp, engine.Options{
			Team: nodesTeam(t, 2), ExpertFormat: kernels.Q8, DenseFormat: kernels.Q8, Experts: noExperts{},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s := newSequence(t, e)
		chunk := []engine.Chunk{{Sequence: s, Tokens: []int32{1}, Phase: budget.Decode}}
		return testing.AllocsPerRun(20, func() {
			out, err := e.Step(t.Context(), chunk)
			if err != nil || out[0].Err != nil {
				t.Fatal(err, out[0].Err)
			}
			chunk[0].Into = out[0].Logits
		})
	}
	if few, many := allocations(3), allocations(9); many > few {
		t.Errorf("%v allocations with 3 layers, %v with 9", few, many)
	}
}
