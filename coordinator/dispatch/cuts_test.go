package dispatch

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/transport"
)

// Workers are told of what the budget cut with their next work, in the order in which it was cut, once, and each of its own parts only.
func TestCut(t *testing.T) {
	t.Parallel()
	const parts = 2
	b := newBench(t, parts, 2, 0, nil)
	type told struct {
		cut    []transport.LayerParts
		filled []uint32
	}
	var mu sync.Mutex
	got := map[string]told{}
	for _, f := range b.workers {
		f.does(func(_ context.Context, w *transport.Work, r *transport.Result) error {
			mu.Lock()
			defer mu.Unlock()
			n := told{filled: slices.Clone(w.Filled)}
			for _, l := range w.Cut {
				n.cut = append(n.cut, transport.LayerParts{Layer: l.Layer, Parts: slices.Clone(l.Parts)})
			}
			got[f.id] = n
			r.GhostBytes, r.MissBytes, r.MajorFaults = 100, 10, 3
			return nil
		})
	}
	owner := func(layer int, part uint32) string { return b.members.plan.Owners[layer][part][0] }
	want := map[string]told{}
	cut := func(layer int, experts ...int32) {
		for _, expert := range experts {
			for part := uint32(expert) * parts; part < uint32(expert+1)*parts; part++ {
				w := want[owner(layer, part)]
				if n := len(w.cut); n == 0 || w.cut[n-1].Layer != layer {
					w.cut = append(w.cut, transport.LayerParts{Layer: layer})
				}
				l := &w.cut[len(w.cut)-1]
				l.Parts = append(l.Parts, part)
				want[owner(layer, part)] = w
			}
		}
	}
	compute := func(layer int, choices []router.Choice, cutExperts, filled []int32) (workers int) {
		t.Helper()
		mu.Lock()
		clear(got)
		mu.Unlock()
		c := testCall(true, 64, choices)
		c.Layer, c.Cut, c.Filled = layer, cutExperts, filled
		stats, err := b.dispatcher.Compute(testContext(t), c)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if n := int64(len(got)); stats.GhostBytes != 100*n || stats.MissBytes != 10*n || stats.MajorFaults != 3*n || stats.Unledgered != 0 {
			t.Errorf("%+v", stats)
		}
		if bytes, known := stats.BytesNotRead(); known != (len(got) > 0) || bytes != int64(90*len(got)) {
			t.Errorf("%d bytes not read, %v", bytes, known)
		}
		for id, n := range got {
			if d := cmp.Diff(want[id], n, cmp.AllowUnexported(told{}), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("layer %d, worker %s: %s", layer, id, d)
			}
			delete(want, id)
		}
		return len(got)
	}
	nothing := make([]router.Choice, 2)
	for range 3 { // memory that is used again leaves nothing behind
		cut(testLayer, 1, 3, 4)
		compute(testLayer, nothing, []int32{1, 3, 4}, nil)
		cut(testLayer+1, 0)
		compute(testLayer+1, nothing, []int32{0}, nil)
		cut(testLayer+1, 2, 7)
		for _, part := range []uint32{10, 11} { // of expert 5
			w := want[owner(testLayer+1, part)]
			w.filled = append(w.filled, part)
			want[owner(testLayer+1, part)] = w
		}
		all := []router.Choice{{Experts: []int32{1, 5}, Weights: []float32{1, 2}}, {Experts: []int32{1, 6}, Weights: []float32{1, 2}}}
		if n := compute(testLayer+1, all, []int32{2, 7}, []int32{5}); n != 2 || len(want) != 0 {
			t.Fatalf("%d workers were asked, to %d something is still to be told", n, len(want))
		}
		compute(testLayer, all, nil, nil) // nothing any more
	}
}

// A worker that gets no work is told of a limited number of lists, the latest.
func TestMostCuts(t *testing.T) {
	t.Parallel()
	var c cuts
	for i := range mostCuts + 5 {
		c.note(3, i%2, uint32(i))
	}
	var w transport.Work
	if c.tell(0, &w); len(w.Cut) != 0 {
		t.Fatalf("worker 0 is told of %v", w.Cut)
	}
	c.tell(3, &w)
	if len(w.Cut) != mostCuts {
		t.Fatalf("%d lists", len(w.Cut))
	}
	for i, l := range w.Cut {
		if l.Layer != (i+5)%2 || !slices.Equal(l.Parts, []uint32{uint32(i + 5)}) {
			t.Fatalf("list %d is %+v", i, l)
		}
	}
	c.untold(3, &w)
	c.note(3, 9, 1)
	if c.tell(3, &w); len(w.Cut) != mostCuts || w.Cut[mostCuts-1].Layer != 9 {
		t.Fatalf("%d lists after a failure", len(w.Cut))
	}
	if c.tell(3, &w); len(w.Cut) != 0 {
		t.Fatalf("told twice: %v", w.Cut)
	}
}
