package dispatch

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/transport"
)

// residents are expert parts (expert·parts+part) of every layer that are in memory.
type residents struct {
	parts int
	is    map[uint32]bool
}

func (r residents) Resident(layer int, expert int32) bool {
	for part := range r.parts {
		if !r.ResidentPart(layer, expert, part) {
			return false
		}
	}
	return true
}

func (r residents) ResidentPart(_ int, expert int32, part int) bool {
	return r.is[uint32(int(expert)*r.parts+part)]
}

// Each worker is told of the parts that it owns and doesn't have, with the next work, and only with that.
func TestHint(t *testing.T) {
	t.Parallel()
	const parts = 2
	b := newBench(t, parts, 2, 0, func(o *Options) {
		o.Snapshot = func() engine.Residency { return residents{parts, map[uint32]bool{4: true, 10: true, 11: true}} }
	})
	var mu sync.Mutex
	got := map[string]transport.LayerParts{}
	for _, f := range b.workers {
		f.does(func(_ context.Context, w *transport.Work, _ *transport.Result) error {
			mu.Lock()
			defer mu.Unlock()
			got[f.id] = transport.LayerParts{Layer: w.Hint.Layer, Parts: append([]uint32{}, w.Hint.Parts...)}
			return nil
		})
	}
	compute := func(next engine.Prediction) map[string]transport.LayerParts {
		t.Helper()
		mu.Lock()
		clear(got)
		mu.Unlock()
		c := testCall(true, 64, someChoices(2))
		c.Next = next
		if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
			t.Fatal(err)
		}
		expectSums(t, c, parts)
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(got)
	}
	// Expert 2 has one part in memory, 5 both; -1 and 99 are none of the layer.
	choices := []router.Choice{
		{Experts: []int32{-1, 2, 5, 7}, Weights: []float32{9, 0.5, 0.25, 0.25}}, {Experts: []int32{2, 3, 99}, Weights: []float32{0.5, 0, 0.5}},
	}
	told := compute(engine.Prediction{Layer: testLayer + 1, Choices: choices})
	owned := map[string][]uint32{}
	for _, id := range []uint32{5, 14, 15, 6, 7} { // the likeliest first
		owner := b.members.plan.Owners[testLayer+1][id][0]
		owned[owner] = append(owned[owner], id)
	}
	if len(owned) != 2 {
		t.Fatalf("all hints belong to one worker: %v", owned)
	}
	for id, want := range owned {
		if d := cmp.Diff(transport.LayerParts{Layer: testLayer + 1, Parts: want}, told[id]); d != "" {
			t.Errorf("worker %s: %s", id, d)
		}
	}

	for name, next := range map[string]engine.Prediction{
		"no prediction": {}, "another layer": {Layer: 77, Choices: choices}, "no rows": {Layer: testLayer + 1},
	} {
		for id, hint := range compute(next) {
			if len(hint.Parts) > 0 {
				t.Errorf("%s: worker %s is told of %v", name, id, hint)
			}
		}
	}
}

// Where more is predicted than a worker is told of, it is told of the likeliest.
func TestMostHinted(t *testing.T) {
	t.Parallel()
	var h hints
	next := engine.Prediction{Choices: []router.Choice{
		{Experts: []int32{0, 1, 2}, Weights: []float32{0.2, 0.5, 0.3}}, {Experts: []int32{2, 3, 9}, Weights: []float32{0.5, 0.5, 0.1}},
	}}
	for range 2 { // its memory leaves nothing behind
		if d := cmp.Diff([]int32{2, 1, 3, 0}, h.predicted(&next, 9)); d != "" {
			t.Error(d)
		}
	}
}
