package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/internal/smalldisk"
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

// reconcile checks that the ledger and the kernel agree on what is in memory, but for what the kernel took back.
func reconcile(t testing.TB, all ...*Shards) {
	t.Helper()
	g := all[0].h.ledger
	seen, used := map[residency.Part]bool{}, int64(0)
	for _, s := range all {
		for _, p := range partsOf(s.plan) {
			a, slot := s.layers[p.Layer].slot(p.ID)
			held := g.resident(p)
			in := inMemory(t, a, slot, held)
			if held != in {
				t.Errorf("layer %d part %d: in the ledger %v, in memory %v", p.Layer, p.ID, held, in)
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

// inMemory says whether a part is in memory. One that should be may not count for a moment, while the kernel moves a page to make room for huge
// ones; and it may be gone if the kernel lacked memory since these tests began.
func inMemory(t testing.TB, a *arena.Arena, slot int, expected bool) bool {
	t.Helper()
	in := a.Resident(slot)
	for tries := 0; expected && !in && tries < 1000; tries++ {
		time.Sleep(time.Millisecond)
		in = a.Resident(slot)
	}
	if taken := reclaimed() - reclaimedBefore; expected && !in && taken > 0 {
		t.Logf("slot %d is not in memory, but for lack of it %d pages were taken back while these tests ran", slot, taken)
		return true
	}
	return in
}

var reclaimedBefore = reclaimed()

// reclaimed is how many pages the kernel has taken back from whomever since the host started, for lack of memory (/proc/vmstat).
func reclaimed() (pages int64) {
	text, _ := os.ReadFile("/proc/vmstat")
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "pgsteal_kswapd", "pgsteal_direct", "pgsteal_proactive", "drop_pagecache":
			n, _ := strconv.ParseInt(value, 10, 64)
			pages += n
		}
	}
	return pages
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
		replay(rt, h, &trace)
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}

// replay checks that a recorded trace gives the holder's own counters.
func replay(t *rapid.T, h *Holder, recorded io.Reader) {
	trace, err := residency.ReadTrace(recorded)
	if err != nil {
		t.Fatal(err)
	}
	totals, err := trace.Replay(h.ledger.account.Policy(), h.ledger.account.Limit())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h.ledger.account.Totals(), totals); diff != "" || trace.Recorded == nil || *trace.Recorded != totals {
		t.Fatalf("the trace gives others than the worker's counters (-worker +replay):\n%s", diff)
	}
	r := h.Residency()
	if r.Hits != totals.Hits || r.Misses != totals.Misses || r.MissBytes != totals.MissBytes || r.GhostBytes != totals.GhostBytes {
		t.Fatalf("report %+v, replay %+v", r, totals)
	}
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

// TestWarm: parts come in in the order asked for, as many as fit, in place of what loading left in memory; those of others are left out, and
// damaged ones are left to the work that needs them.
func TestWarm(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	plain, _ := setup{}.load(t, cp)
	size := sizeOf(plain.Plan())
	dir := t.TempDir()
	s, store := limited(dir, 1, ResidentOptions{Limit: 5*size + 1}).load(t, cp)
	if got := s.h.Residency(); got.Resident != 5*size || got.Limit != 5*size+1 || got.Eviction == "" {
		t.Errorf("after loading: %+v", got)
	}
	order := []residency.Part{{Layer: 2, ID: 7}, {Layer: 0, ID: 3}, {Layer: 2, ID: 7}, {Layer: 9, ID: 1}, {Layer: 1, ID: 99}, {Layer: 1, ID: 2}, {Layer: 1, ID: 3},
		{Layer: 2, ID: 1}, {Layer: 0, ID: 0}}
	var most, calls atomic.Int64
	warm := func(s *Shards) {
		t.Helper()
		most.Store(0)
		calls.Store(0)
		err := s.Warm(context.Background(), order, func(done, total int64) {
			calls.Add(1)
			for old := most.Load(); done > old && !most.CompareAndSwap(old, done); old = most.Load() {
			}
			if total != 5*size {
				t.Errorf("%d bytes in all, want %d", total, 5*size)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	warm(s)
	if most.Load() != 5*size || calls.Load() != 6 {
		t.Errorf("progress ended at %d after %d calls", most.Load(), calls.Load())
	}
	want := fmt.Sprint([]transport.LayerBitmap{{Layer: 0, Bits: []byte{8}}, {Layer: 1, Bits: []byte{12}}, {Layer: 2, Bits: []byte{0x82}}})
	if got := fmt.Sprint(s.h.Resident(s)); got != want {
		t.Errorf("resident %s, want %s", got, want)
	}
	reconcile(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Warm(ctx, order, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, dir, 1, func(f *os.File, _ int64) {
		if _, err := f.WriteAt([]byte{1, 2, 3, 4}, 2<<20+2*2<<20+999); err != nil { // expert 2
			t.Fatal(err)
		}
	})
	profile := []residency.Heat{{Part: order[0], Heat: 0.5}, {Part: order[1], Heat: 0.4}}
	s, store = limited(dir, 1, ResidentOptions{Limit: 5*size + 1, Profile: profile}).load(t, cp)
	for _, p := range partsOf(s.plan) {
		if s.h.ledger.resident(p) && p != order[0] && p != order[1] {
			t.Errorf("%v stayed in memory, though the profile doesn't name it", p)
		}
	}
	warm(s)
	if c := store.Counters(); c.TornSlots != 1 || s.h.ledger.resident(residency.Part{Layer: 1, ID: 2}) {
		t.Errorf("counters %+v", c)
	}
	reconcile(t, s)
	w := randomWork(t, 3, plain.Plan(), 1, 8)
	same(t, "after a damaged part", compute(t, s, w).Sum, compute(t, plain, w).Sum)
	reconcile(t, s)
}

// TestLimitTooSmall: a limit below one expert part is refused by name.
func TestLimitTooSmall(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	_, _, err := limited(t.TempDir(), 1, ResidentOptions{Limit: 5000}).try(t, cp)
	var limit *residency.LimitError
	if !errors.As(err, &limit) || limit.Limit != 5000 {
		t.Errorf("error %v", err)
	}
}

// TestLimitWithoutFiles: anonymous memory is no business of the ledger's, and that the limit can't work is said.
func TestLimitWithoutFiles(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	s, _ := limited("", 1, ResidentOptions{Limit: 200 << 10}).load(t, cp)
	w := randomWork(t, 3, s.Plan(), 1, 8)
	r := compute(t, s, w)
	if countBits(r.Hits) != len(r.Parts) || r.MissBytes != 0 || s.h.Residency().Resident != 0 {
		t.Errorf("%+v, %+v", r, s.h.Residency())
	}
	if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "resident limit") {
		t.Errorf("notes %q", notes)
	}
	for _, b := range s.h.Resident(s) {
		if b.Bits[0] != 0xff {
			t.Errorf("resident %v", b)
		}
	}
}

// TestLimitInMemoryFolder: where evicted files stay in memory, the limit can't work, which is said; the sums are right.
func TestLimitInMemoryFolder(t *testing.T) {
	cp := openModel(t, synth.Tiny("mixtral"))
	plain, _ := setup{}.load(t, cp)
	s, _ := limited(smalldisk.Mount(t, 60<<20), 1, ResidentOptions{Limit: 200 << 10}).load(t, cp)
	if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "stay in memory when they are evicted") {
		t.Errorf("notes %q", notes)
	}
	w := randomWork(t, 3, s.Plan(), 1, 8)
	same(t, "in a memory folder", compute(t, s, w).Sum, compute(t, plain, w).Sum)
}
