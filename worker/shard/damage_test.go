package shard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/transport"
)

// chill drops all parts from memory, behind the ledger's back.
func chill(t *testing.T, s *Shards) {
	t.Helper()
	for _, p := range partsOf(s.plan) {
		a, slot := s.layers[p.Layer].slot(p.ID)
		if err := a.Evict(slot); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMissesWithoutLedger: what the kernel took away is read again, and counted.
func TestMissesWithoutLedger(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("qwen3_moe"))
	s, _ := setup{parts: 3, threads: 2, dir: t.TempDir()}.load(t, cp)
	w := randomWork(t, 1, s.Plan(), 2, 9)
	want := slices.Clone(compute(t, s, w).Sum)
	chill(t, s)
	if got := fmt.Sprint(s.h.Resident(s)); got != fmt.Sprint([]transport.LayerBitmap{{Layer: 0, Bits: []byte{0, 0, 0}}, {Layer: 2, Bits: []byte{0, 0, 0}}}) {
		t.Skipf("pages don't leave memory here: %s", got)
	}
	r := compute(t, s, w)
	same(t, "cold", r.Sum, want)
	missed := int64(0)
	for _, id := range r.Parts {
		missed += s.bytes(residency.Part{Layer: 2, ID: id})
	}
	if countBits(r.Hits) != 0 || r.MissBytes != missed || r.GhostBytes != -1 || r.Evicted != nil || r.Arrived != nil {
		t.Errorf("hits %v, %d bytes missed of %d, result %+v", r.Hits, r.MissBytes, missed, r)
	}
	r = compute(t, s, w)
	same(t, "warm", r.Sum, want)
	if countBits(r.Hits) != len(r.Parts) || r.MissBytes != 0 {
		t.Errorf("hits %v of %d, %d bytes missed", r.Hits, len(r.Parts), r.MissBytes)
	}
	times := s.h.Times()
	if len(times) != 1 || times[0].Hits != uint64(2*len(r.Parts)) || times[0].Misses != uint64(len(r.Parts)) {
		t.Errorf("%+v", times)
	}
	if report := s.h.Residency(); report.Hits != times[0].Hits || report.Misses != times[0].Misses || report.MissBytes != missed || report.GhostBytes != -1 ||
		report.Limit != 0 || report.Resident != 0 {
		t.Errorf("%+v", report)
	}
}

// TestReclaimed: the ledger's parts that the kernel took away are read without a miss, and counted as such.
func TestReclaimed(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	s, _ := limited(t.TempDir(), 1, ResidentOptions{Limit: 1 << 30}).load(t, cp)
	w := randomWork(t, 1, s.Plan(), 1, 9)
	want := slices.Clone(compute(t, s, w).Sum)
	chill(t, s)
	r := compute(t, s, w)
	same(t, "taken away", r.Sum, want)
	if report := s.h.Residency(); report.Reclaimed != uint64(len(r.Parts)) || report.Misses != 0 || r.MissBytes != 0 || countBits(r.Hits) != len(r.Parts) {
		t.Errorf("%+v; %+v", report, r)
	}
}

// TestDamageWhileReading: parts that turn out to be torn, or whose file was truncated, when they are read or while others are read, are packed
// again; with and without a ledger, whatever fits.
func TestDamageWhileReading(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	plain, _ := setup{format: kernels.BF16, parts: 2}.load(t, cp)
	w := randomWork(t, 1, plain.Plan(), 1, 9)
	want := slices.Clone(compute(t, plain, w).Sum)
	tear := func(t *testing.T, dir string, from int64) {
		damage(t, dir, 1, func(f *os.File, size int64) {
			for at := from + 777; at < size; at += 4 << 20 { // each second slot
				if _, err := f.WriteAt([]byte{0xa5, 0x5a, 0xff}, at); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	cut := func(t *testing.T, dir string, left int64) {
		damage(t, dir, 1, func(f *os.File, _ int64) {
			if err := f.Truncate(left); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, room := range []int64{0, 1, 3, 8, 1000} {
		u := setup{format: kernels.BF16, parts: 2, threads: 2, dir: t.TempDir(), change: func(o *Options, _ *Loading) {
			if room > 0 {
				o.Resident = &ResidentOptions{Limit: room * sizeOf(plain.Plan())}
			}
		}}
		for what, harm := range map[string]func(dir string){
			"torn":             func(dir string) { tear(t, dir, 2<<20) },
			"torn, the others": func(dir string) { tear(t, dir, 4<<20) },
			"truncated":        func(dir string) { cut(t, dir, 7<<20) },
			"truncated to 0":   func(dir string) { cut(t, dir, 0) },
		} {
			_, store := u.load(t, cp)
			if err := store.Close(); err != nil { // so that checksums are verified anew
				t.Fatal(err)
			}
			name := fmt.Sprintf("room for %d, %s", room, what)
			if strings.HasPrefix(what, "torn") {
				harm(u.dir)
			}
			s, store := u.load(t, cp)
			chill(t, s)
			if !strings.HasPrefix(what, "torn") {
				harm(u.dir)
			}
			same(t, name, compute(t, s, w).Sum, want)
			same(t, name+", again", compute(t, s, w).Sum, want)
			if room > 0 {
				chill(t, s)
				same(t, name+", cold", compute(t, s, w).Sum, want)
			}
			// Under the kernels.
			ctx := &calledBack{Context: context.Background(), call: func() { cut(t, u.dir, 4096) }}
			var r transport.Result
			if err := s.Compute(ctx, w, &r); err != nil {
				t.Fatal(name, err)
			}
			same(t, name+", under the kernels", r.Sum, want)
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// endsLater is a context that ends when it has been asked a number of times.
type endsLater struct {
	context.Context
	cancel func()
	left   atomic.Int64
}

func (c *endsLater) Err() error {
	if c.left.Add(-1) < 0 {
		c.cancel()
	}
	return c.Context.Err()
}

// TestGivenUpWhileReading: a work that ends early, at any point, leaves ledger and memory in agreement, and the next one is right.
func TestGivenUpWhileReading(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	plain, _ := setup{parts: 2}.load(t, cp)
	for _, room := range []int64{1, 3, 8} {
		s, _ := limited(t.TempDir(), 2, ResidentOptions{Limit: room * sizeOf(plain.Plan())}).load(t, cp)
		for asked := range 30 {
			inner, cancel := context.WithCancel(context.Background())
			w := randomWork(t, uint64(asked), plain.Plan(), asked%3, 5)
			ctx := &endsLater{Context: inner, cancel: cancel}
			ctx.left.Store(int64(asked % 15))
			err := s.Compute(ctx, w, &transport.Result{})
			cancel()
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			reconcile(t, s)
			if asked%3 == 0 {
				same(t, fmt.Sprintf("room for %d, after %d", room, asked), compute(t, s, w).Sum, compute(t, plain, w).Sum)
				reconcile(t, s)
			}
		}
	}
}
