package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/internal/smalldisk"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// TestReuse: a second load packs nothing, and computes the same.
func TestReuse(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("qwen3_moe"))
	u := setup{parts: 3, threads: 2, dir: t.TempDir()}
	first, store := u.load(t, cp)
	if c := store.Counters(); c.PackedBytes != first.Plan().Bytes || c.ReusedBytes != 0 || c.Files != 6 {
		t.Errorf("first load: %+v, the plan has %d bytes", c, first.Plan().Bytes)
	}
	w := randomWork(t, 1, first.Plan(), 2, 7)
	want := slices.Clone(compute(t, first, w).Sum)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	var last atomic.Int64
	u.change = func(_ *Options, l *Loading) { l.Progress = func(ready, _ int64) { last.Store(ready) } }
	second, store := u.load(t, cp)
	if c := store.Counters(); c.PackedBytes != 0 || c.ReusedBytes != second.Plan().Bytes {
		t.Errorf("second load: %+v, the plan has %d bytes", c, second.Plan().Bytes)
	}
	if last.Load() != second.Plan().Bytes {
		t.Errorf("progress ends at %d of %d", last.Load(), second.Plan().Bytes)
	}
	r := compute(t, second, w)
	same(t, "reused", r.Sum, want)
	if store.Counters().VerifiedSlots != int64(len(r.Parts)) {
		t.Errorf("%d slots verified, %d brought in", store.Counters().VerifiedSlots, len(r.Parts))
	}
}

// TestProgressReachesAll: it never goes beyond the total or back below what was reused.
func TestProgressReachesAll(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	var most, calls atomic.Int64
	s, _ := setup{threads: 3, change: func(_ *Options, l *Loading) {
		l.Progress = func(ready, total int64) {
			if total != l.Plan.Bytes || ready < 0 || ready > total {
				t.Errorf("progress %d of %d", ready, total)
			}
			calls.Add(1)
			for old := most.Load(); ready > old && !most.CompareAndSwap(old, ready); old = most.Load() {
			}
		}
	}}.load(t, cp)
	if most.Load() != s.Plan().Bytes || calls.Load() != int64(1+s.Plan().Count) {
		t.Errorf("progress ended at %d of %d after %d calls", most.Load(), s.Plan().Bytes, calls.Load())
	}
}

// damage changes a layer's files in the arena folder.
func damage(t *testing.T, dir string, layer int, change func(f *os.File, size int64)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("*%d-part-*.arena", layer)))
	if err != nil || len(files) == 0 {
		t.Fatalf("arena files %v, %v", files, err)
	}
	for _, name := range files {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		change(f, info.Size())
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedSlotsAreRebuilt: torn and truncated files, between two starts and while running, cost a rebuild and not a bit.
func TestDamagedSlotsAreRebuilt(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	u := setup{format: kernels.BF16, parts: 2, threads: 2, dir: t.TempDir()}
	s, store := u.load(t, cp)
	w := randomWork(t, 1, s.Plan(), 1, 7)
	want := slices.Clone(compute(t, s, w).Sum)

	check := func(what string, s *Shards) *transport.Result {
		t.Helper()
		r := compute(t, s, w)
		same(t, what, r.Sum, want)
		same(t, what+", again", compute(t, s, w).Sum, want)
		return r
	}

	// Truncated while running, found before computing.
	for _, left := range []int64{0, 2<<20 + 5000, 9 << 20} {
		damage(t, u.dir, 1, func(f *os.File, size int64) {
			if left >= size {
				t.Fatalf("the file has %d bytes only", size)
			}
			if err := f.Truncate(left); err != nil {
				t.Fatal(err)
			}
		})
		r := check(fmt.Sprint("truncated to ", left), s)
		if r.MissBytes == 0 || int(countBits(r.Hits)) == len(r.Parts) {
			t.Errorf("truncated to %d: %d bytes missed, hits %v", left, r.MissBytes, r.Hits)
		}
	}

	// Truncated after the expert parts were brought in: the kernels fault.
	ctx := &calledBack{Context: context.Background(), call: func() {
		damage(t, u.dir, 1, func(f *os.File, _ int64) {
			if err := f.Truncate(4096); err != nil {
				t.Fatal(err)
			}
		})
	}}
	var r transport.Result
	if err := s.Compute(ctx, w, &r); err != nil {
		t.Fatal(err)
	}
	if !ctx.called.Load() {
		t.Fatal("the file was not truncated under the kernels")
	}
	same(t, "truncated under the kernels", r.Sum, want)
	if countBits(r.Hits) != 0 {
		t.Errorf("hits %v though everything was rebuilt", r.Hits)
	}
	check("after the fault", s)

	// Torn: a byte of each slot changed while nobody looked.
	if _, err := s.BringAll(context.Background()); err != nil { // those that no work has asked for since the truncation
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, u.dir, 1, func(f *os.File, size int64) {
		for at := int64(2<<20) + 777; at < size; at += 2 << 20 {
			if _, err := f.WriteAt([]byte{0xa5, 0x5a, 0xff}, at); err != nil {
				t.Fatal(err)
			}
		}
	})
	s, store = u.load(t, cp)
	if c := store.Counters(); c.PackedBytes != 0 {
		t.Fatalf("%d bytes packed: the marks were damaged, not the slots", c.PackedBytes)
	}
	r2 := check("torn", s)
	if c := store.Counters(); c.TornSlots != int64(len(r2.Parts)) {
		t.Errorf("%d torn slots, %d expert parts asked for", c.TornSlots, len(r2.Parts))
	}
	damaged, err := s.BringAll(context.Background())
	if err != nil || damaged != s.Plan().Experts*s.Plan().Parts-len(r2.Parts) {
		t.Errorf("BringAll: %d damaged of %d, %d were mended before: %v", damaged, s.Plan().Experts*s.Plan().Parts, len(r2.Parts), err)
	}
	if damaged, err := s.BringAll(context.Background()); err != nil || damaged != 0 {
		t.Errorf("BringAll again: %d damaged, %v", damaged, err)
	}
}

// calledBack is a context that does something when it is asked, which Compute does between bringing in and computing.
type calledBack struct {
	context.Context
	call   func()
	called atomic.Bool
}

func (c *calledBack) Err() error {
	if !c.called.Swap(true) {
		c.call()
	}
	return nil
}

func countBits(b []byte) (n int) {
	for _, v := range b {
		for ; v != 0; v &= v - 1 {
			n++
		}
	}
	return n
}

// TestResidentBits: exactly the owned expert parts, right after they were written.
func TestResidentBits(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("qwen3_moe"))
	s, _ := setup{dir: t.TempDir(), parts: 2, layers: []transport.LayerParts{{Layer: 2, Parts: []uint32{0, 9, 15}}, {Layer: 0, Parts: []uint32{3}}}}.load(t, cp)
	got := fmt.Sprint(s.h.Resident(s))
	if want := fmt.Sprint([]transport.LayerBitmap{{Layer: 0, Bits: []byte{8, 0}}, {Layer: 2, Bits: []byte{1, 0x82}}}); got != want {
		t.Errorf("resident %s, want %s", got, want)
	}
}

// TestNoRoom: needed and available are compared before anything is packed, and named.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	small := func(_ *Options, l *Loading) {
		l.Memory = func() Memory { return Memory{Available: 100 << 10, Why: "cgroup limit 1 MiB"} }
	}
	_, store, err := setup{change: small}.try(t, cp)
	var room *RoomError
	if !errors.As(err, &room) || room.Available != 100<<10 || room.Needed < 1<<20 || !strings.Contains(err.Error(), "cgroup limit 1 MiB") {
		t.Errorf("error %v", err)
	}
	if c := store.Counters(); c.PackedBytes != 0 {
		t.Errorf("%d bytes were packed all the same", c.PackedBytes)
	}
	// With files the same experts are loaded, and the shortage is said.
	s, _ := setup{dir: t.TempDir(), change: small}.load(t, cp)
	if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "memory available is 100 KiB (cgroup limit 1 MiB)") {
		t.Errorf("notes %q", notes)
	}
}

// TestCancelledLoad: a load that is given up ends, leaves no goroutine, and is continued by the next one.
func TestCancelledLoad(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	for _, stopAt := range []int64{0, 1, 9} {
		for _, dir := range []string{"", t.TempDir()} {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			_, store, err := setup{dir: dir, threads: 2, change: func(o *Options, l *Loading) {
				var calls atomic.Int64
				l.Progress = func(int64, int64) {
					if calls.Add(1) > stopAt {
						cancel()
					}
				}
				s, err := NewHolder(*o).Load(ctx, *l)
				if !errors.Is(err, context.Canceled) || s != nil {
					t.Errorf("folder %q, stopped at %d: %v, %v", dir, stopAt, s, err)
				}
				l.Progress = nil
			}}.try(t, cp)
			if err != nil {
				t.Errorf("folder %q: after a load that was given up: %v", dir, err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestPlanIsChecked: an assignment that doesn't fit the model is refused with what is wrong.
func TestPlanIsChecked(t *testing.T) {
	t.Parallel()
	c := openModel(t, synth.Tiny("qwen3_moe")).Config()
	for name, bad := range map[string]struct {
		parts  int
		layers []transport.LayerParts
		want   string
	}{
		"parts":       {4, nil, "1 to 3"},
		"no parts":    {0, nil, "1 to 3"},
		"dense layer": {1, []transport.LayerParts{{Layer: 1}}, "layer 1 has no experts"},
		"layer":       {1, []transport.LayerParts{{Layer: 3}}, "layer 3"},
		"negative":    {1, []transport.LayerParts{{Layer: -1}}, "layer -1"},
		"part":        {2, []transport.LayerParts{{Layer: 0, Parts: []uint32{16}}}, "8 experts of 2 parts"},
		"order":       {1, []transport.LayerParts{{Layer: 0, Parts: []uint32{3, 2}}}, "not ascending at 2"},
		"twice":       {1, []transport.LayerParts{{Layer: 0}, {Layer: 2}, {Layer: 0}}, "layer 0 is listed twice"},
	} {
		if _, err := NewPlan(c, kernels.Q8, bad.parts, bad.layers); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, bad.want)
		}
	}
	p, err := NewPlan(c, kernels.Q8, 3, Whole(c, 3))
	if err != nil {
		t.Fatal(err)
	}
	if p.Count != 2*8*3 || len(p.Layers) != 2 || p.Shapes[0].Intermediate != 64 || p.Shapes[2].Intermediate != 32 {
		t.Errorf("plan %+v", p)
	}
}

// TestFullDisk: what a full disk has no room for goes to anonymous memory; the bits are the same, and the next start packs only that.
func TestFullDisk(t *testing.T) {
	dir := smalldisk.Mount(t, 6<<20)
	cp := openModel(t, synth.Tiny("mixtral"))
	u := setup{format: kernels.F32, threads: 2}
	plain, _ := u.load(t, cp)
	u.dir = dir
	s, store := u.load(t, cp)
	c := store.Counters()
	if c.Fallbacks == 0 || c.Bytes != s.Plan().Bytes || c.Bytes < 8<<20 {
		t.Errorf("counters %+v", c)
	}
	if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "anonymous memory") {
		t.Errorf("notes %q", notes)
	}
	for layer := range 3 {
		w := randomWork(t, 1, s.Plan(), layer, 6)
		same(t, fmt.Sprint("layer ", layer), compute(t, s, w).Sum, compute(t, plain, w).Sum)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, store = u.load(t, cp)
	if c := store.Counters(); c.ReusedBytes == 0 || c.ReusedBytes+c.PackedBytes != s.Plan().Bytes {
		t.Errorf("second start: %+v", c)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	// Too little memory for the rest: an error before packing, with the disk's numbers in it.
	u.change = func(_ *Options, l *Loading) {
		l.Memory = func() Memory { return Memory{Available: 1 << 20, Why: "MemAvailable 1 MiB"} }
	}
	_, _, err := u.try(t, cp)
	var room *RoomError
	if !errors.As(err, &room) || !strings.Contains(err.Error(), "free on the disk of "+dir) {
		t.Errorf("error %v", err)
	}
}

// TestUnusableFolder: the store says why once, the shards note it.
func TestUnusableFolder(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	s, store := setup{dir: "/proc/no-such-folder"}.load(t, cp)
	if c := store.Counters(); c.Fallbacks != 3 || c.Files != 0 {
		t.Errorf("counters %+v", c)
	}
	if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "the arena folder can't be used") {
		t.Errorf("notes %q", notes)
	}
}

// TestTruncatedCheckpoint: a model file that becomes shorter while it is packed is an error of the load, not the process's death.
func TestTruncatedCheckpoint(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	if err := os.Truncate(filepath.Join(cp.Dir(), "model.safetensors"), 20000); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", t.TempDir()} {
		_, store, err := setup{dir: dir, threads: 2}.try(t, cp)
		if err == nil || !strings.Contains(err.Error(), cp.Dir()) || !strings.Contains(err.Error(), "became shorter") {
			t.Errorf("folder %q: error %v", dir, err)
		}
		if c := store.Counters(); c.Bytes != 0 {
			t.Errorf("folder %q: %d bytes are marked valid", dir, c.Bytes)
		}
	}
}

// TestPackedBytesDoNotDependOnThreads: slots come out in the right places whichever thread is quicker.
func TestPackedBytesDoNotDependOnThreads(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("qwen3_moe"))
	u := setup{format: kernels.BF16, parts: 3}
	one, _ := u.load(t, cp)
	for i := range 32 {
		u.threads = 2 + i%4
		many, store := u.load(t, cp)
		for number, l := range one.layers {
			for part, a := range l.arenas {
				for slot := range one.Plan().Experts {
					if !bytes.Equal(a.Bytes(slot), many.layers[number].arenas[part].Bytes(slot)) {
						t.Fatalf("load %d with %d threads: layer %d part %d slot %d differs", i, u.threads, number, part, slot)
					}
				}
			}
		}
		many.h.o.Team.Close()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
