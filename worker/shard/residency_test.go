package shard

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/transport"
)

// limited is a setup under a limit of a number of parts of the first part's size.
func limited(dir string, partsOfAnExpert int, options ResidentOptions) setup {
	return setup{dir: dir, parts: partsOfAnExpert, threads: 2, change: func(o *Options, _ *Loading) { o.Resident = &options }}
}

// sizeOf is what the largest part takes in memory.
func sizeOf(p *Plan) int64 {
	most := 0
	for _, s := range p.Shapes {
		most = max(most, s.Bytes())
	}
	return pagesOf(most)
}

// reconcile checks that the ledger and the kernel agree on what is in memory, but for what the kernel read ahead or took back.
func reconcile(t testing.TB, all ...*Shards) {
	t.Helper()
	g := all[0].h.ledger
	seen, used := map[residency.Part]bool{}, int64(0)
	for _, s := range all {
		for _, p := range partsOf(s.plan) {
			a, slot := s.layers[p.Layer].slot(p.ID)
			in := a.Resident(slot)
			if g.resident(p) != in {
				t.Errorf("layer %d part %d: in the ledger %v, in memory %v", p.Layer, p.ID, g.resident(p), in)
			}
			if in && !seen[p] {
				used += s.bytes(p)
			}
			seen[p] = true
		}
	}
	if used != g.account.Used() || used > g.account.Limit() {
		t.Errorf("%d bytes in memory, the ledger has %d of %d", used, g.account.Used(), g.account.Limit())
	}
}

// TestSameBitsUnderAnyLimit: whatever the limit, even one that holds a single expert part, the policy, and the number of rows, sums are those
// without a limit, memory holds what the ledger says, and results tell all changes.
func TestSameBitsUnderAnyLimit(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	for _, parts := range []int{1, 3} {
		plain, _ := setup{parts: parts}.load(t, cp)
		size := sizeOf(plain.Plan())
		for _, name := range residency.Names {
			policy, err := residency.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, fit := range []int64{1, 2, 5, 9, 1000} {
				s, _ := limited(t.TempDir(), parts, ResidentOptions{Limit: fit * size, Policy: policy}).load(t, cp)
				reconcile(t, s)
				known := map[residency.Part]bool{} // as a coordinator knows it
				for _, bitmap := range s.h.Resident(s) {
					for id := range uint32(8 * parts) {
						known[residency.Part{Layer: bitmap.Layer, ID: id}] = bitmap.Bits[id/8]&(1<<(id%8)) != 0
					}
				}
				for i, rows := range []int{1, 8, 64, 2, 1, 1} {
					w := randomWork(t, uint64(i), plain.Plan(), i%3, rows)
					r := compute(t, s, w)
					same(t, fmt.Sprintf("%s, room for %d, %d rows", name, fit, rows), r.Sum, compute(t, plain, w).Sum)
					reconcile(t, s)
					follow(known, w.Layer, r)
					for p, resident := range known {
						if resident != s.h.ledger.resident(p) {
							t.Errorf("results say %v of %v", resident, p)
						}
					}
				}
			}
		}
	}
}

// follow applies a result to what is known.
func follow(known map[residency.Part]bool, layer int, r *transport.Result) {
	for _, id := range r.Parts {
		known[residency.Part{Layer: layer, ID: id}] = true
	}
	for _, changed := range []struct {
		layers   []transport.LayerParts
		resident bool
	}{{r.Arrived, true}, {r.Evicted, false}} {
		for _, l := range changed.layers {
			for _, id := range l.Parts {
				known[residency.Part{Layer: l.Layer, ID: id}] = changed.resident
			}
		}
	}
}

// TestRandomWorksUnderLimits: random works, warmings, hints and placements under random limits. The sums are right, ledger and memory agree, the
// trace replays to the same counters.
func TestRandomWorksUnderLimits(t *testing.T) {
	t.Parallel()
	const parts = 2
	cp := openModel(t, synth.Tiny("mixtral"))
	reference, _ := setup{parts: parts}.load(t, cp)
	base := t.TempDir()
	size := sizeOf(reference.Plan())
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "arena")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		h, _, end := newHolder(rt, cp, dir)
		defer end()
		var trace bytes.Buffer
		h.o.Resident = &ResidentOptions{Limit: size * rapid.Int64Range(1, 30).Draw(rt, "room"), Record: &trace, Worker: "w"}
		var kept []*Shards
		load := func() {
			s, err := h.Load(context.Background(), Loading{Plan: drawPlan(rt, t, cp, parts), Keep: kept})
			if err != nil {
				rt.Fatal(err)
			}
			kept = append(kept, s)
		}
		load()
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			s := kept[rapid.IntRange(0, len(kept)-1).Draw(rt, "shards")]
			switch action := rapid.IntRange(0, 9).Draw(rt, "action"); {
			case action == 0:
				load()
			case action == 1:
				kept = kept[len(kept)-1:]
				if err := h.GiveBack(kept...); err != nil {
					rt.Fatal(err)
				}
			case action == 2:
				if err := s.Warm(context.Background(), partsOf(s.plan), nil); err != nil {
					rt.Fatal(err)
				}
			case len(s.plan.Layers) > 0:
				pl := s.plan.Layers[rapid.IntRange(0, len(s.plan.Layers)-1).Draw(rt, "layer")]
				w := randomWork(t, rapid.Uint64().Draw(rt, "seed"), s.plan, pl.Number, rapid.SampledFrom([]int{1, 3, 8}).Draw(rt, "rows"))
				for _, id := range pl.Owned {
					if rapid.Bool().Draw(rt, "cut") && !slices.Contains(w.Parts, id) {
						w.Cut = append(w.Cut, transport.LayerParts{Layer: pl.Number, Parts: []uint32{id}})
						break
					}
				}
				var r transport.Result
				if err := s.Compute(context.Background(), w, &r); err != nil {
					rt.Fatal(err)
				}
				same(t, "under a limit", r.Sum, compute(t, reference, w).Sum)
				if r.GhostBytes < 0 {
					rt.Fatalf("%d bytes of the ghost", r.GhostBytes)
				}
			}
			reconcile(t, kept...)
		}
		if err := h.Close(); err != nil {
			rt.Fatal(err)
		}
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}

// partsOf lists all expert parts of a plan.
func partsOf(p *Plan) (all []residency.Part) {
	for _, pl := range p.Layers {
		for _, id := range pl.Owned {
			all = append(all, residency.Part{Layer: pl.Number, ID: id})
		}
	}
	return all
}
