package residency

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// record plays calls on an account with a recorder and reads the trace.
func record(t *rapid.T, s scene) (*Trace, Totals) {
	var file bytes.Buffer
	l := newLedger(t, s.options)
	r, err := NewRecorder(&file, "w", l)
	if err != nil {
		t.Fatal(err)
	}
	a := NewAccount(l, r)
	var ghost int64
	for _, e := range s.calls {
		switch e.op {
		case work:
			_, bytes := a.Work(e.layer, e.parts, e.filled, e.cut)
			ghost += bytes
		case insert:
			a.Insert(Part{e.layer, e.parts[0]})
		case prefetch:
			a.Prefetch(Part{e.layer, e.parts[0]})
		case remove:
			a.Remove(Part{e.layer, e.parts[0]})
		case seed:
			a.Seed(e.profile)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if a.GhostBytes() != ghost {
		t.Fatalf("the ghost counts %d bytes, its answers were %d", a.GhostBytes(), ghost)
	}
	trace, err := ReadTrace(&file)
	if err != nil {
		t.Fatal(err)
	}
	return trace, a.Totals()
}

// TestReplayIsTheRecording: a trace replayed with the recorded policy and limit gives the worker's own totals, and no policy beats the bound.
func TestReplayIsTheRecording(t *testing.T) {
	t.Parallel()
	forPolicies(t, func(t *rapid.T, p Policy) {
		s := drawScene(t, p)
		trace, want := record(t, s)
		if trace.Recorded == nil || *trace.Recorded != want {
			t.Fatalf("the trace ends with %+v, want %+v", trace.Recorded, want)
		}
		recorded, err := Parse(trace.Policy)
		if err != nil {
			t.Fatal(err)
		}
		got, err := trace.Replay(recorded, trace.Limit)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("the replay counts %+v, want %+v", got, want)
		}
		bound, err := trace.Optimum(trace.Limit)
		if err != nil {
			t.Fatal(err)
		}
		if bound.Hits < got.Hits || bound.Hits+bound.Misses != got.Hits+got.Misses || bound.Requests != got.Requests {
			t.Fatalf("the bound is %+v, %v got %+v", bound, p, got)
		}
	})
}

// TestGhostWithoutCuts: nothing was cut, so the ghost reads what the ledger reads.
func TestGhostWithoutCuts(t *testing.T) {
	t.Parallel()
	forPolicies(t, func(t *rapid.T, p Policy) {
		s := drawScene(t, p)
		for i := range s.calls {
			s.calls[i].cut, s.calls[i].filled = nil, nil
		}
		if _, got := record(t, s); got.GhostBytes != got.MissBytes {
			t.Fatalf("the ghost read %d bytes, the ledger %d", got.GhostBytes, got.MissBytes)
		}
	})
}

// TestOptimum compares the bound with a search of all that may be kept.
func TestOptimum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const parts = 5
		room := rapid.IntRange(1, 4).Draw(t, "room")
		s := scene{options: Options{Policy: lru{}, Parts: parts, Layers: []int{0}, Limit: int64(room) * 7, Bytes: func(Part) int64 { return 7 }}}
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			ids := rapid.SliceOfNDistinct(rapid.Uint32Range(0, parts-1), 0, parts, rapid.ID[uint32]).Draw(t, "ids")
			slices.Sort(ids)
			s.calls = append(s.calls, event{op: work, parts: ids})
		}
		trace, _ := record(t, s)
		got, err := trace.Optimum(s.options.Limit)
		if err != nil {
			t.Fatal(err)
		}
		best := map[int]int{0: 0} // resident set → most hits so far
		for _, e := range s.calls {
			wanted := 0
			for _, id := range e.parts {
				wanted |= 1 << id
			}
			after := map[int]int{}
			for kept, hits := range best {
				hits += ones(kept & wanted)
				for set := range 1 << parts {
					if set&^(kept|wanted) == 0 && ones(set) <= room {
						after[set] = max(after[set], hits)
					}
				}
			}
			best = after
		}
		want := 0
		for _, hits := range best {
			want = max(want, hits)
		}
		if got.Hits != uint64(want) {
			t.Fatalf("the bound is %d hits, a search finds %d", got.Hits, want)
		}
	})
}

func ones(set int) int {
	n := 0
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}

// TestColdest compares what the orders with heaps would evict with a search of everything that may leave.
func TestColdest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]Policy{lfu{}, nextUse{}}).Draw(t, "policy")
		s := drawScene(t, p)
		l := newLedger(t, s.options)
		for _, e := range s.calls {
			tell(l, e)
			l.settle()
			worst := int32(-1)
			for slot, state := range l.states {
				if state == evictable && (worst < 0 || leavesBefore(l.order, int32(slot), worst)) {
					worst = int32(slot)
				}
			}
			if got := l.order.coldest(); got != worst {
				t.Fatalf("the coldest part is %d, a search finds %d", got, worst)
			}
		}
	})
}

func leavesBefore(o order, a, b int32) bool {
	switch o := o.(type) {
	case *lfuOrder:
		return o.less(a, b)
	case *nextUseOrder:
		wait := func(slot int32) (wait float64) {
			layers := len(o.heap)
			distance := (int(slot)/o.parts - o.place + layers - 1) % layers
			return float64(layers)/o.score[slot] + float64(distance+1)
		}
		// Of a layer's parts that wait equally long the higher slot leaves first; of layers, the one that comes first.
		if wait(a) != wait(b) {
			return wait(a) > wait(b)
		}
		layers := len(o.heap)
		da, db := (int(a)/o.parts-o.place+layers-1)%layers, (int(b)/o.parts-o.place+layers-1)%layers
		return da < db || da == db && o.less(a, b)
	}
	panic("an order without heaps")
}
