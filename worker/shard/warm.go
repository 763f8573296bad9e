package shard

import (
	"context"
	"errors"
	"sync"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/residency"
)

// adopt makes memory and ledger agree on a layer that was just loaded: what packing or an earlier process left in memory comes into the
// ledger, or leaves memory. With a profile only its hottest parts are kept, as many as fit: the others would stand in the way of Warm.
func (s *Shards) adopt(pl PlanLayer) {
	g := s.h.ledger
	if g == nil {
		return
	}
	l := s.layers[pl.Number]
	for _, id := range pl.Owned {
		a, slot := l.slot(id)
		if !a.InFile(slot) {
			continue
		}
		p := residency.Part{Layer: pl.Number, ID: id}
		if g.welcome(p) && a.Resident(slot) {
			g.insert(p)
		}
		g.evict(p)
		if !g.resident(p) && a.Resident(slot) {
			s.stuck += s.bytes(p)
		}
	}
}

// welcome says whether a part that happens to be in memory may stay there.
func (g *ledger) welcome(p residency.Part) bool { return g.hottest == nil || g.hottest[p] }

// insert brings a part into the ledger if there is room for it.
func (g *ledger) insert(p residency.Part) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.account.Resident(p) {
		return true
	}
	if !g.account.Insert(p) {
		return false
	}
	g.note(p)
	return true
}

// fitting is the set of the first parts of a list that fit into the limit; it ends with the first one that doesn't.
func (g *ledger) fitting(order []residency.Part) map[residency.Part]bool {
	some, free := map[residency.Part]bool{}, g.account.Limit()
	for _, p := range order {
		if !g.account.Known(p) || some[p] {
			continue
		}
		if free -= g.account.Bytes(p); free < 0 {
			break
		}
		some[p] = true
	}
	return some
}

// Warm reads expert parts of the shards before they are asked for, in the given order (others are left out), and verifies their checksums;
// with a ledger, until its limit is full. Parts that the ledger has found in memory while loading and that are not among those give way as
// long as nothing was computed. Meanwhile work is computed as usual, and its reads come first. progress (may be nil) gets the bytes that are
// done, of all, from several goroutines. A damaged part is left to the first work that needs it, which has it packed again. The error is
// ctx's, or that of a store that is closed.
func (s *Shards) Warm(ctx context.Context, order []residency.Part, progress func(done, total int64)) error {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	w := warming{s: s, progress: progress}
	for _, p := range order {
		if l := s.layers[p.Layer]; l != nil && int64(p.ID) < int64(len(l.owned)) && l.owned[p.ID] {
			w.parts = append(w.parts, p)
		}
	}
	if g := s.h.ledger; g != nil {
		w.parts = g.choose(w.parts)
	}
	for _, p := range w.parts {
		w.total += s.bytes(p)
	}
	progress(0, w.total)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var readers sync.WaitGroup
	errs := make([]error, readersAtOnce)
	for i := range errs {
		readers.Go(func() {
			if errs[i] = w.run(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	readers.Wait()
	s.h.forgetReads()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// bytes is what a part takes in memory.
func (s *Shards) bytes(p residency.Part) int64 {
	return pagesOf(s.plan.Shapes[int(p.ID)%s.plan.Parts].Bytes())
}

// choose gives the parts to warm, and makes room for them if nothing was computed yet.
func (g *ledger) choose(parts []residency.Part) []residency.Part {
	g.mu.Lock()
	some := g.fitting(parts)
	var leave []residency.Part
	if g.account.Counters().Requests == 0 {
		for _, layer := range g.layers {
			for _, id := range g.account.AppendResident(nil, layer) {
				if p := (residency.Part{Layer: layer, ID: id}); !some[p] {
					g.account.Remove(p)
					g.note(p)
					leave = append(leave, p)
				}
			}
		}
	}
	g.mu.Unlock()
	for _, p := range leave {
		g.evict(p)
	}
	var chosen []residency.Part
	for _, p := range parts {
		if some[p] {
			chosen = append(chosen, p)
			some[p] = false // parts may be listed twice
		}
	}
	return chosen
}

// warming is one Warm.
type warming struct {
	s        *Shards
	progress func(done, total int64)

	mu          sync.Mutex
	parts       []residency.Part // that have not begun
	done, total int64
}

func (w *warming) next() (p residency.Part, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.parts) == 0 {
		return p, false
	}
	p, w.parts = w.parts[0], w.parts[1:]
	return p, true
}

// run is the life of a reader.
func (w *warming) run(ctx context.Context) error {
	for {
		p, ok := w.next()
		if !ok {
			return nil
		}
		if err := w.s.h.reading.awaitIdle(ctx); err != nil {
			return err
		}
		_, err := w.s.h.ahead(p, func(a *residency.Account) ([]residency.Part, bool) { return nil, a.Resident(p) || a.Insert(p) })
		if err != nil && !damaged(err) && !errors.Is(err, arena.ErrNotFilled) { // not filled: given back meanwhile
			return err
		}
		w.mu.Lock()
		w.done += w.s.bytes(p)
		done := w.done
		w.mu.Unlock()
		w.progress(done, w.total)
	}
}

// damaged says whether packing a part again mends it.
func damaged(err error) bool {
	return errors.Is(err, arena.ErrTorn) || errors.Is(err, arena.ErrTruncated)
}

// ahead reads an expert part that no work waits for. With a ledger, room asks it, under its lock, whether the part may come in and what must leave
// for it; that is not called for a part in anonymous memory. read is false if the ledger had no room. Whoever calls it waits until the
// disk is idle (reading.awaitIdle) first.
func (h *Holder) ahead(p residency.Part, room func(*residency.Account) (evict []residency.Part, ok bool)) (read bool, err error) {
	a, slot := h.slotOf(p)
	if a == nil || !a.Valid(slot) {
		return false, arena.ErrNotFilled
	}
	g := h.accounts()
	if g == nil || !a.InFile(slot) {
		_, err := h.fetch(p)
		return err == nil, err
	}
	evict, ok := g.make(p, room)
	if !ok {
		return false, nil
	}
	for _, e := range evict {
		g.evict(e)
	}
	if _, err := h.fetch(p); err != nil {
		g.remove(p)
		g.evict(p)
		return false, err
	}
	return true, nil
}

// make asks for a part's room.
func (g *ledger) make(p residency.Part, room func(*residency.Account) ([]residency.Part, bool)) ([]residency.Part, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	evict, ok := room(g.account)
	if !ok {
		return nil, false
	}
	evict = append([]residency.Part(nil), evict...) // the ledger's memory
	g.note(evict...)
	g.note(p)
	return evict, true
}
