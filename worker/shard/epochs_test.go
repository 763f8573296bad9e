package shard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/internal/smalldisk"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/transport"
)

// planOf checks a plan of q8.
func planOf(t testing.TB, cp *checkpoint.Checkpoint, parts int, layers ...transport.LayerParts) *Plan {
	t.Helper()
	p, err := NewPlan(cp.Config(), kernels.Q8, parts, layers)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// retired checks that shards refuse work.
func retired(t testing.TB, s *Shards, w *transport.Work) {
	t.Helper()
	var remote *transport.RemoteError
	if err := s.Compute(context.Background(), w, &transport.Result{}); !errors.As(err, &remote) || remote.Code != transport.CodeWrongEpoch {
		t.Errorf("shards that were given back: %v", err)
	}
}

// TestLoadBeside: a second plan packs what the first lacks, both are computed, and what only the first owns goes when it is given back.
func TestLoadBeside(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	for _, dir := range []string{"", t.TempDir()} {
		u := setup{dir: dir, parts: 2, threads: 2, layers: []transport.LayerParts{{Layer: 0, Parts: []uint32{0, 1, 2, 3}}, {Layer: 1, Parts: []uint32{4, 5}}}}
		old, store := u.load(t, cp)
		packed, addresses := store.Counters().PackedBytes, old.layers[0].arenas[0].Bytes(1)
		plan := planOf(t, cp, 2, transport.LayerParts{Layer: 0, Parts: []uint32{2, 3, 5}}, transport.LayerParts{Layer: 2, Parts: []uint32{15}})
		s, err := old.h.Load(context.Background(), Loading{Plan: plan, Keep: []*Shards{old}})
		if err != nil {
			t.Fatal(err)
		}
		shape := plan.Shapes[1]
		if c := store.Counters(); c.PackedBytes-packed != int64(2*shape.Bytes()) || c.Bytes != c.PackedBytes {
			t.Errorf("folder %q: packed %d more, holds %d", dir, c.PackedBytes-packed, c.Bytes)
		}
		if got, want := fmt.Sprint(old.h.Resident(old, s)), fmt.Sprint([]transport.LayerBitmap{
			{Layer: 0, Bits: []byte{0x2f, 0}}, {Layer: 1, Bits: []byte{0x30, 0}}, {Layer: 2, Bits: []byte{0, 0x80}}}); got != want {
			t.Errorf("folder %q: resident %s, want %s", dir, got, want)
		}
		check := func(s *Shards) {
			t.Helper()
			for _, pl := range s.Plan().Layers {
				w := randomWork(t, 3, s.Plan(), pl.Number, 9)
				same(t, fmt.Sprintf("folder %q, layer %d", dir, pl.Number), compute(t, s, w).Sum, direct(t, cp, s.Plan(), w))
			}
		}
		check(old)
		check(s)
		// Each plan has its own parts only.
		var remote *transport.RemoteError
		if err := s.Compute(context.Background(), randomWork(t, 4, old.Plan(), 1, 2), &transport.Result{}); !errors.As(err, &remote) || remote.Code != transport.CodeNotOwned {
			t.Errorf("a layer of the other plan: %v", err)
		}
		if err := s.h.GiveBack(s); err != nil {
			t.Fatal(err)
		}
		if c := store.Counters(); c.Bytes != plan.Bytes {
			t.Errorf("folder %q: holds %d, the plan has %d", dir, c.Bytes, plan.Bytes)
		}
		retired(t, old, randomWork(t, 3, old.Plan(), 0, 2))
		check(s)
		if now := s.layers[0].arenas[0].Bytes(1); &now[0] != &addresses[0] {
			t.Errorf("folder %q: a slot that both plans own has moved", dir)
		}
		// The first plan again, without keeping anything: the second one's slots are given back first.
		before := store.Counters().PackedBytes
		again, err := s.h.Load(context.Background(), Loading{Plan: old.Plan()})
		if err != nil {
			t.Fatal(err)
		}
		if c := store.Counters(); c.Bytes != old.Plan().Bytes || c.PackedBytes-before != int64(2*plan.Shapes[0].Bytes()+2*shape.Bytes()) {
			t.Errorf("folder %q: %+v", dir, c)
		}
		retired(t, s, randomWork(t, 3, plan, 0, 2))
		check(again)
	}
}

// TestFailedLoadBeside: neither a model file that became shorter nor a load that is given up disturbs what is served; the next load
// goes on from there.
func TestFailedLoadBeside(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", t.TempDir()} {
		cp := openModel(t, synth.Tiny("mixtral"))
		old, store := setup{dir: dir, threads: 2, layers: []transport.LayerParts{{Layer: 0, Parts: []uint32{0, 3}}}}.load(t, cp)
		w := randomWork(t, 1, old.Plan(), 0, 5)
		want := slices.Clone(compute(t, old, w).Sum)
		all := planOf(t, cp, 1, Whole(cp.Config(), 1)...)

		ctx, cancel := context.WithCancel(context.Background())
		var once sync.Once
		_, err := old.h.Load(ctx, Loading{Plan: all, Keep: []*Shards{old}, Progress: func(ready, _ int64) {
			if ready > old.Plan().Bytes {
				once.Do(cancel)
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("folder %q: %v", dir, err)
		}
		same(t, "after a load that was given up", compute(t, old, w).Sum, want)

		weights := filepath.Join(cp.Dir(), "model.safetensors")
		whole, err := os.ReadFile(weights)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(weights, 20000); err != nil {
			t.Fatal(err)
		}
		if _, err := old.h.Load(context.Background(), Loading{Plan: all, Keep: []*Shards{old}}); err == nil || !strings.Contains(err.Error(), "became shorter") {
			t.Fatalf("folder %q: %v", dir, err)
		}
		same(t, "after a load that failed", compute(t, old, w).Sum, want)

		if err := os.WriteFile(weights, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := old.h.Load(context.Background(), Loading{Plan: all, Keep: []*Shards{old}})
		if err != nil {
			t.Fatal(err)
		}
		if c := store.Counters(); c.Bytes != all.Bytes {
			t.Errorf("folder %q: holds %d of %d", dir, c.Bytes, all.Bytes)
		}
		same(t, "after a load", compute(t, s, w).Sum, want)
		same(t, "the former, after a load", compute(t, old, w).Sum, want)
	}
}

// TestFullDiskBeside: what the disk has no room for goes to anonymous memory, beside what is served, and comes from there again.
func TestFullDiskBeside(t *testing.T) {
	dir := smalldisk.Mount(t, 6<<20)
	cp := openModel(t, synth.Tiny("mixtral"))
	u := setup{format: kernels.F32, threads: 2, dir: dir, layers: []transport.LayerParts{{Layer: 0, Parts: []uint32{0, 3}}}}
	old, store := u.load(t, cp)
	w := randomWork(t, 1, old.Plan(), 0, 5)
	want := slices.Clone(compute(t, old, w).Sum)
	if c := store.Counters(); c.Fallbacks != 0 {
		t.Fatalf("the served plan alone: %+v", c)
	}
	plan, err := NewPlan(cp.Config(), kernels.F32, 1, Whole(cp.Config(), 1))
	if err != nil {
		t.Fatal(err)
	}
	s, err := old.h.Load(context.Background(), Loading{Plan: plan, Keep: []*Shards{old}})
	if err != nil {
		t.Fatal(err)
	}
	if c := store.Counters(); c.Fallbacks == 0 || c.Bytes != plan.Bytes {
		t.Errorf("%+v, the plan has %d bytes", c, plan.Bytes)
	}
	if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "anonymous memory") {
		t.Errorf("notes %q", notes)
	}
	same(t, "what was served", compute(t, old, w).Sum, want)
	for layer := range 3 {
		w := randomWork(t, 1, plan, layer, 4)
		same(t, fmt.Sprint("layer ", layer), compute(t, s, w).Sum, direct(t, cp, plan, w))
	}
	if err := s.h.GiveBack(old); err != nil {
		t.Fatal(err)
	}
	if c := store.Counters(); c.Bytes != old.Plan().Bytes {
		t.Errorf("%+v, the plan has %d bytes", c, old.Plan().Bytes)
	}
	same(t, "what is served again", compute(t, old, w).Sum, want)
}

// drawPlan is a random plan of some layers of a model with 8 experts.
func drawPlan(t *rapid.T, test *testing.T, cp *checkpoint.Checkpoint, parts int) *Plan {
	var layers []transport.LayerParts
	for number := range cp.Config().Layers {
		bits := rapid.Uint64Range(0, 1<<(8*parts)-1).Draw(t, fmt.Sprint("owned of layer ", number))
		l := transport.LayerParts{Layer: number}
		for id := range uint32(8 * parts) {
			if bits>>id&1 != 0 {
				l.Parts = append(l.Parts, id)
			}
		}
		if len(l.Parts) > 0 {
			layers = append(layers, l)
		}
	}
	return planOf(test, cp, parts, layers...)
}

// TestLoadWhileComputing: plans come and go at random while works run on those that stay. Sums are the same throughout; what is held is
// what the plans own, and nothing that is held is packed again.
func TestLoadWhileComputing(t *testing.T) {
	t.Parallel()
	const parts = 2
	cp := openModel(t, synth.Tiny("mixtral"))
	reference, _ := setup{parts: parts}.load(t, cp)
	works := map[int]*known{}
	for _, pl := range reference.Plan().Layers {
		k := &known{work: randomWork(t, 9, reference.Plan(), pl.Number, 2)}
		for _, id := range pl.Owned {
			k.sums = append(k.sums, slices.Clone(compute(t, reference, only(k.work, []uint32{id})).Sum))
		}
		works[pl.Number] = k
	}
	base := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir := ""
		if rapid.IntRange(0, 3).Draw(rt, "files") == 0 {
			var err error
			if dir, err = os.MkdirTemp(base, "arena"); err != nil {
				rt.Fatal(err)
			}
			defer os.RemoveAll(dir)
		}
		h, store, end := newHolder(rt, cp, dir)
		defer end()
		var kept []*Shards
		for range rapid.IntRange(1, 3).Draw(rt, "steps") {
			plan := drawPlan(rt, t, cp, parts)
			fresh := int64(0)
			for i, held := range union(kept...) {
				for id := range held {
					if owns(plan, i, id) && !held[id] {
						fresh += int64(plan.Shapes[id%parts].Bytes())
					}
				}
			}
			before := store.Counters().PackedBytes
			stop := computeAll(t, kept, works)
			s, err := h.Load(context.Background(), Loading{Plan: plan, Keep: kept})
			stop()
			if err != nil {
				rt.Fatal(err)
			}
			if got := store.Counters().PackedBytes - before; got != fresh {
				rt.Fatalf("packed %d bytes, %d were missing", got, fresh)
			}
			kept = append(kept, s)
			some := slices.Clone(kept[rapid.IntRange(0, len(kept)-1).Draw(rt, "first kept"):])
			stop = computeAll(t, some, works)
			err = h.GiveBack(some...)
			stop()
			if err != nil {
				rt.Fatal(err)
			}
			for _, gone := range kept[:len(kept)-len(some)] {
				for _, pl := range gone.Plan().Layers {
					retired(t, gone, only(works[pl.Number].work, pl.Owned))
				}
			}
			kept = some
			held := int64(0)
			for i, layer := range union(kept...) {
				for id, owned := range layer {
					if a := arenaOf(h, i, id%parts); owned != (a != nil && a.Valid(id/parts)) {
						rt.Fatalf("layer %d, expert part %d: owned %v", i, id, owned)
					}
					if owned {
						held += int64(plan.Shapes[id%parts].Bytes())
					}
				}
			}
			if c := store.Counters(); c.Bytes != held {
				rt.Fatalf("%d bytes are held, the plans own %d", c.Bytes, held)
			}
		}
	})
}

// known is a work for all expert parts of a layer, with the sums of each of them alone: those of several are added.
type known struct {
	work *transport.Work
	sums [][]int64 // by expert part
}

func (k *known) sum(owned []uint32) []int64 {
	total := make([]int64, k.work.Rows*k.work.Hidden)
	for _, id := range owned {
		for i, v := range k.sums[id] {
			total[i] += v
		}
	}
	return total
}

func newHolder(t *rapid.T, cp *checkpoint.Checkpoint, dir string) (*Holder, *arena.Store, func()) {
	set, err := kernels.Select(kernels.Available()[0])
	if err != nil {
		t.Fatal(err)
	}
	store, err := arena.OpenStore(arena.Options{Dir: dir, Identity: "test"})
	if err != nil {
		t.Fatal(err)
	}
	tm, err := team.New(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	return NewHolder(Options{Checkpoint: cp, Store: store, Dir: dir, Team: tm, Kernels: set, Node: -1}), store, func() {
		tm.Close()
		store.Close()
	}
}

// union is what some plans own, of each of three layers.
func union(shards ...*Shards) [3][]bool {
	var all [3][]bool
	for i := range all {
		all[i] = make([]bool, 16)
		for _, s := range shards {
			s.plan.own(i, all[i])
		}
	}
	return all
}

func owns(p *Plan, layer, id int) bool {
	owned := make([]bool, p.Experts*p.Parts)
	p.own(layer, owned)
	return owned[id]
}

func arenaOf(h *Holder, layer, part int) *arena.Arena {
	if l := h.layers[layer]; l != nil {
		return l.arenas[part]
	}
	return nil
}

// only is a work with the expert parts that are owned.
func only(w *transport.Work, owned []uint32) *transport.Work {
	some := *w
	some.Parts, some.Weights, some.Offsets = nil, nil, []uint32{0}
	for row := range w.Rows {
		for i := w.Offsets[row]; i < w.Offsets[row+1]; i++ {
			if slices.Contains(owned, w.Parts[i]) {
				some.Parts, some.Weights = append(some.Parts, w.Parts[i]), append(some.Weights, w.Weights[i])
			}
		}
		some.Offsets = append(some.Offsets, uint32(len(some.Parts)))
	}
	return &some
}

// computeAll computes on all shards in turns until stop is called, once at least, and compares with what is known.
func computeAll(t *testing.T, shards []*Shards, works map[int]*known) (stop func()) {
	type item struct {
		s    *Shards
		w    *transport.Work
		want []int64
	}
	var items []item
	for _, s := range shards {
		for _, pl := range s.Plan().Layers {
			items = append(items, item{s, only(works[pl.Number].work, pl.Owned), works[pl.Number].sum(pl.Owned)})
		}
	}
	end := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		var r transport.Result
		for {
			for _, i := range items {
				if err := i.s.Compute(context.Background(), i.w, &r); err != nil {
					t.Errorf("computing beside a load: %v", err)
					return
				}
				same(t, "beside a load", r.Sum, i.want)
			}
			select {
			case <-end:
				return
			default:
			}
		}
	})
	return func() {
		close(end)
		ended.Wait()
	}
}

// TestComputeAllocatesNothing: in the steady state a layer costs no memory, with times and bandwidth counted. Not parallel, as AllocsPerRun
// demands.
func TestComputeAllocatesNothing(t *testing.T) {
	cp := openModel(t, synth.Tiny("mixtral"))
	s, _ := setup{threads: 2}.load(t, cp)
	w := randomWork(t, 1, s.Plan(), 1, 3)
	var r transport.Result
	ask := func() {
		if err := s.Compute(context.Background(), w, &r); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(50, ask); n != 0 {
		t.Errorf("%v allocations a layer", n)
	}
	times := s.h.Times()
	bytes, spent := s.h.Bandwidth()
	if want := int64(51 * len(r.Parts) * s.Plan().Shapes[0].Bytes()); len(times) != 1 || times[0].Layer != 1 || times[0].Count != 51 ||
		bytes != want || spent != times[0].Nanoseconds || spent <= 0 {
		t.Errorf("%+v, %d bytes (want %d) in %d ns", times, bytes, want, spent)
	}
	// Many rows are bounded by arithmetic, not by memory.
	many := randomWork(t, 1, s.Plan(), 0, 40)
	compute(t, s, many)
	if again, _ := s.h.Bandwidth(); again != bytes || len(s.h.Times()) != 2 {
		t.Errorf("%d bytes after many rows, %d before; %+v", again, bytes, s.h.Times())
	}
}
