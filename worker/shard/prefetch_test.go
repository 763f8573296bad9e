package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/transport"
)

// hintedModel has three layers of eight experts.
func hintedModel(t *testing.T) *checkpoint.Checkpoint {
	t.Helper()
	spec := synth.Tiny("qwen3_moe")
	spec.Layers, spec.Experts, spec.TopK, spec.DenseLayers, spec.SparseStep = 3, 8, 2, nil, 1
	return openModel(t, spec)
}

// loadHinted loads shards with a ledger for so many expert parts.
func loadHinted(t *testing.T, cp *checkpoint.Checkpoint, mode Prefetch, room int) *Shards {
	t.Helper()
	s, _ := setup{dir: t.TempDir(), threads: 2, change: func(o *Options, l *Loading) {
		bytes := pagesOf(l.Plan.Shapes[0].Bytes())
		o.Resident, o.Prefetch = &ResidentOptions{Limit: bytes * int64(room)}, mode
	}}.load(t, cp)
	t.Cleanup(func() {
		if err := s.h.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// empty makes nothing resident.
func empty(s *Shards) {
	for layer := range s.layers {
		for id := range uint32(8) {
			p := residency.Part{Layer: layer, ID: id}
			s.h.ledger.remove(p)
			s.h.ledger.evict(p)
		}
	}
}

// workOf asks for some parts, for one row.
func workOf(t *testing.T, s *Shards, layer int, parts []uint32, hint transport.LayerParts) *transport.Work {
	t.Helper()
	w := randomWork(t, 1, s.plan, layer, 1)
	w.Parts, w.Weights, w.Hint = parts, make([]float32, len(parts)), hint
	for i := range w.Weights {
		w.Weights[i] = 1 / float32(i+2)
	}
	w.Offsets = []uint32{0, uint32(len(parts))}
	return w
}

// settled waits until all that was pending is read or refused.
func settled(t *testing.T, s *Shards) PrefetchCounters {
	t.Helper()
	f := &s.h.prefetcher
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		idle := len(f.pending) == 0 && f.busy == 0
		f.mu.Unlock()
		if idle {
			return s.h.Prefetched()
		}
		if time.Now().After(deadline) {
			t.Fatal("hints are not followed")
		}
	}
}

// What is hinted is read while nothing is asked for, is reported, and is there when it is asked for.
func TestHintIsFollowed(t *testing.T) {
	t.Parallel()
	s := loadHinted(t, hintedModel(t), PrefetchOn, 12)
	empty(s)
	first := compute(t, s, workOf(t, s, 0, []uint32{0, 1}, transport.LayerParts{Layer: 1, Parts: []uint32{2, 3, 5}}))
	if n := settled(t, s); n.Read != 3 || n.Failed != 0 || n.Off {
		t.Fatalf("%+v", n)
	}
	for _, id := range []uint32{2, 3, 5} {
		if a, slot := s.layers[1].slot(id); !inMemory(t, a, slot, true) {
			t.Errorf("part %d isn't in memory", id)
		}
	}
	r := compute(t, s, workOf(t, s, 1, []uint32{2, 4, 5}, transport.LayerParts{}))
	if r.Hits[0] != 0b101 || r.MissBytes != pagesOf(s.plan.Shapes[0].Bytes()) {
		t.Errorf("hits %b, %d bytes missed", r.Hits[0], r.MissBytes)
	}
	// What came before the first work's result was made is told of there.
	told := map[uint32]bool{2: true, 5: true} // asked for
	for _, l := range slices.Concat(first.Arrived, r.Arrived) {
		for _, id := range l.Parts {
			told[id] = l.Layer == 1
		}
	}
	if d := cmp.Diff(map[uint32]bool{2: true, 3: true, 5: true}, told); d != "" {
		t.Errorf("arrived: %s", d)
	}
	if n := s.h.Residency(); n.Prefetched != 3 || n.PrefetchUsed != 2 || n.PrefetchLate != 0 || n.PrefetchOff {
		t.Errorf("%+v", n)
	}
}

// Nothing is read while a request waits for the disk, and a hint that was not followed until the next work came is dropped.
func TestHintWaits(t *testing.T) {
	t.Parallel()
	s := loadHinted(t, hintedModel(t), PrefetchOn, 12)
	empty(s)
	s.h.reading.begin() // a request that never gets what it waits for
	compute(t, s, workOf(t, s, 0, []uint32{0, 1}, transport.LayerParts{Layer: 1, Parts: []uint32{2, 3, 5}}))
	compute(t, s, workOf(t, s, 1, []uint32{6, 7}, transport.LayerParts{Layer: 2, Parts: []uint32{4}}))
	if n := s.h.Prefetched(); n.Read != 0 {
		t.Fatalf("read beside a request: %+v", n)
	}
	s.h.reading.end()
	if n := settled(t, s); n.Read != 1 || s.h.ledger.resident(residency.Part{Layer: 1, ID: 2}) || !s.h.ledger.resident(residency.Part{Layer: 2, ID: 4}) {
		t.Errorf("%+v", n)
	}
}

// A full ledger takes nothing in for a hint in place of what was just used.
func TestHintEvictsNothingWarm(t *testing.T) {
	t.Parallel()
	s := loadHinted(t, hintedModel(t), PrefetchOn, 4)
	empty(s)
	compute(t, s, workOf(t, s, 0, []uint32{0, 1}, transport.LayerParts{}))
	compute(t, s, workOf(t, s, 1, []uint32{0, 1}, transport.LayerParts{Layer: 2, Parts: []uint32{2, 3, 4}}))
	if n := settled(t, s); n.Read != 0 {
		t.Fatalf("%+v", n)
	}
	if r := compute(t, s, workOf(t, s, 0, []uint32{0, 1}, transport.LayerParts{})); r.Hits[0] != 0b11 {
		t.Errorf("warm parts were evicted: hits %b", r.Hits[0])
	}
}

// Hints of parts that there are not, that are not owned, or that are damaged do no harm.
func TestForeignHints(t *testing.T) {
	t.Parallel()
	cp := hintedModel(t)
	s, _ := setup{dir: t.TempDir(), layers: []transport.LayerParts{{Layer: 0, Parts: []uint32{0, 1}}, {Layer: 1, Parts: []uint32{0, 1, 2}}},
		change: func(o *Options, l *Loading) {
			o.Resident, o.Prefetch = &ResidentOptions{Limit: 1 << 20}, PrefetchOn
		}}.load(t, cp)
	t.Cleanup(func() { s.h.Close() })
	empty(s)
	for _, hint := range []transport.LayerParts{
		{Layer: 1, Parts: []uint32{3, 7}}, {Layer: 1, Parts: []uint32{8, 1 << 15}}, {Layer: 2, Parts: []uint32{0}}, {Layer: 77, Parts: []uint32{0}}, {Layer: 0, Parts: []uint32{7}},
	} {
		w := workOf(t, s, 0, []uint32{0, 1}, hint)
		same(t, fmt.Sprint(hint), compute(t, s, w).Sum, direct(t, cp, s.plan, w))
		if n := settled(t, s); n.Read != 0 || n.Failed != 0 {
			t.Fatalf("%v: %+v", hint, n)
		}
	}
}

// Without a ledger, with hints off, and while they don't pay, none is followed.
func TestHintsOff(t *testing.T) {
	t.Parallel()
	cp := hintedModel(t)
	hint := transport.LayerParts{Layer: 1, Parts: []uint32{2, 3, 5}}
	s, _ := setup{dir: t.TempDir()}.load(t, cp)
	for _, s := range []*Shards{s, loadHinted(t, cp, PrefetchOff, 12), loadHinted(t, cp, PrefetchAuto, 12)} {
		f := &s.h.prefetcher
		f.payoff.resting, f.payoff.settled = true, 100
		if s.h.ledger != nil {
			empty(s)
		}
		compute(t, s, workOf(t, s, 0, []uint32{0, 1}, hint))
		if n := settled(t, s); n.Read != 0 || !n.Off || f.stop != nil {
			t.Errorf("%+v", n)
		}
	}
}

// Bits don't depend on hints: right ones, wrong ones and those that race with the next work, while parts come and go.
func TestHintsChangeNoBit(t *testing.T) {
	t.Parallel()
	cp := hintedModel(t)
	for _, mode := range []Prefetch{PrefetchOn, PrefetchOff, PrefetchAuto} {
		for _, room := range []int{1, 3, 24} {
			t.Run(fmt.Sprintf("prefetch=%s/room=%d", mode, room), func(t *testing.T) {
				t.Parallel()
				s := loadHinted(t, cp, mode, room)
				empty(s)
				r := rand.New(rand.NewPCG(uint64(room), 3))
				for i := range 60 {
					layer := i % 3
					w := randomWork(t, uint64(i%6), s.plan, layer, 2)
					w.Hint.Layer = (layer + r.IntN(4)) % 3
					for id := range uint32(10) { // two more than there are
						if r.IntN(2) == 0 {
							w.Hint.Parts = append(w.Hint.Parts, id)
						}
					}
					same(t, fmt.Sprint("work ", i), compute(t, s, w).Sum, direct(t, cp, s.plan, w))
				}
				settled(t, s)
				g, resident := s.h.ledger, 0
				for layer, l := range s.layers {
					for id := range uint32(8) {
						a, slot := l.slot(id)
						known := g.resident(residency.Part{Layer: layer, ID: id})
						in := inMemory(t, a, slot, known)
						if in {
							resident++
						}
						if known != in {
							t.Errorf("layer %d part %d: in memory %v, by the ledger %v", layer, id, in, known)
						}
					}
				}
				if resident > room {
					t.Errorf("%d parts in memory, there is room for %d", resident, room)
				}
				n, read := s.h.Residency(), s.h.Prefetched().Read
				if n.PrefetchUsed > n.Prefetched || read > n.Prefetched || mode == PrefetchOff && n.Prefetched > 0 || mode == PrefetchOn && room == 24 && read == 0 {
					t.Errorf("%+v", n)
				}
			})
		}
	}
}
