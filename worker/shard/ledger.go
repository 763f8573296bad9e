package shard

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/transport"
)

// ResidentOptions make a holder keep the account of which expert parts are in memory, and evict by itself, instead of leaving both to
// the kernel. Only what lies in files counts: anonymous memory can't be evicted.
type ResidentOptions struct {
	Limit   int64            // bytes; a *residency.LimitError of Load if it has no room for one expert part
	Policy  residency.Policy // nil: residency.Default
	Profile []residency.Heat // of an earlier run; may be nil
	Record  io.Writer        // gets the trace of what the ledger was asked; may be nil
	Worker  string           // named in the trace
}

// ledger is the account of a holder and what belongs to it.
type ledger struct {
	h *Holder

	mu       sync.Mutex
	account  *residency.Account
	recorder *residency.Recorder
	moved    []residency.Part // that came or left since the last result, other than by being asked for
	changes  uint64
	layers   []int                   // all MoE layers
	hottest  map[residency.Part]bool // of the profile, as many as fit; nil without one. Not changed any more

	reclaimed atomic.Uint64 // parts of the ledger that the kernel had taken away when they were asked for
	failed    sync.Once     // an eviction; it is said once
}

// mostMoved bounds what waits for a result; beyond it, the beats' bitmaps tell.
const mostMoved = 1 << 14

// keepAccount makes the ledger for a plan's model, once; nil without ResidentOptions.
func (h *Holder) keepAccount(plan *Plan) error {
	o := h.o.Resident
	if o == nil || h.ledger != nil {
		return nil
	}
	var layers []int
	if h.o.Checkpoint != nil {
		for number, l := range h.o.Checkpoint.Config().Layers {
			if l.MoE {
				layers = append(layers, number)
			}
		}
	} else {
		for _, pl := range plan.Layers {
			layers = append(layers, pl.Number)
		}
	}
	l, err := residency.New(residency.Options{
		Limit: o.Limit, Policy: o.Policy, Layers: layers, Parts: plan.Experts * plan.Parts,
		Bytes: func(p residency.Part) int64 { return pagesOf(plan.Shapes[int(p.ID)%plan.Parts].Bytes()) },
	})
	if err != nil {
		return fmt.Errorf("--resident-limit: %w", err)
	}
	g := &ledger{h: h, layers: layers}
	if o.Record != nil {
		if g.recorder, err = residency.NewRecorder(o.Record, o.Worker, l); err != nil {
			h.o.Log("warning: no residency trace is recorded: %v", err)
		}
	}
	g.account = residency.NewAccount(l, g.recorder)
	if len(o.Profile) > 0 {
		g.account.Seed(o.Profile)
		order := make([]residency.Part, len(o.Profile))
		for i, heat := range o.Profile {
			order[i] = heat.Part
		}
		g.hottest = g.fitting(order)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ledger = g
	return nil
}

// pagesOf rounds packed bytes up to pages, which is what a part takes in memory.
func pagesOf(bytes int) int64 { return int64(roundUp(bytes, os.Getpagesize())) }

// Close ends the account, and the recorded trace with its totals; nothing may be computed afterwards. The store and the team are the caller's.
func (h *Holder) Close() error {
	h.prefetcher.close()
	g := h.ledger
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.account.Close()
}

// accounts gives the ledger, or nil, to those that don't run after Load.
func (h *Holder) accounts() *ledger {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ledger
}

// note keeps what has come or left for the next result; callers hold mu.
func (g *ledger) note(parts ...residency.Part) {
	if len(parts) == 0 {
		return
	}
	g.changes++
	if len(g.moved)+len(parts) > mostMoved {
		g.moved = g.moved[:0]
	}
	g.moved = append(g.moved, parts...)
}

// resident asks for one part.
func (g *ledger) resident(p residency.Part) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.account.Resident(p)
}

// remove takes a part out that isn't in memory after all.
func (g *ledger) remove(p residency.Part) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.account.Resident(p) {
		g.account.Remove(p)
		g.note(p)
	}
}

// evict drops a part from memory unless the ledger has it (again). The slot's lock keeps it apart from a read of the same part.
func (g *ledger) evict(p residency.Part) {
	a, slot := g.h.slotOf(p)
	if a == nil {
		return
	}
	lock := g.h.lockOf(p)
	lock.Lock()
	defer lock.Unlock()
	if g.resident(p) {
		return
	}
	if err := a.Evict(slot); err != nil {
		g.failed.Do(func() {
			g.h.o.Log("warning: an expert part can't be evicted, so more memory is used than the resident limit: %v", err)
		})
	}
}

// report adds a result's changes of residency: what came or left since the last one. c has the parts of the result.
func (g *ledger) report(l *layer, r *transport.Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.moved) == 0 {
		return
	}
	slices.SortFunc(g.moved, func(a, b residency.Part) int { return cmp.Or(a.Layer-b.Layer, cmp.Compare(a.ID, b.ID)) })
	for _, p := range slices.Compact(g.moved) {
		if !g.account.Resident(p) {
			r.Evicted = appendPart(r.Evicted, p)
		} else if _, asked := slices.BinarySearch(r.Parts, p.ID); p.Layer != l.number || !asked {
			r.Arrived = appendPart(r.Arrived, p)
		}
	}
	g.moved = g.moved[:0]
}

func appendPart(to []transport.LayerParts, p residency.Part) []transport.LayerParts {
	if n := len(to); n == 0 || to[n-1].Layer != p.Layer {
		to = append(to, transport.LayerParts{Layer: p.Layer})
	}
	last := &to[len(to)-1]
	last.Parts = append(last.Parts, p.ID)
	return to
}
