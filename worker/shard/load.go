package shard

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
)

// Loading says what to load.
type Loading struct {
	// Plan is what to own.
	Plan *Plan

	// Keep are shards of the same holder that stay as they are and can be computed while this plan loads. Others are ended, and what
	// only they own is given back first. With one to keep, packing leaves the CPUs to whatever else runs.
	Keep []*Shards

	// Memory tells what this process may still take; it is asked after slots were given back. nil skips the check.
	Memory func() Memory

	// Progress is told the bytes that are ready, of all, from several goroutines; may be nil.
	Progress func(ready, total int64)
}

// Load maps the arenas of a plan, packs what is not held yet straight from the checkpoint, layer by layer, and verifies where
// the pages lie. More memory than the shards themselves is needed for one layer at most. If it fails or ctx ends, what was packed until
// then stays for the next Load, and the kept shards are what they were.
func (h *Holder) Load(ctx context.Context, o Loading) (*Shards, error) {
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	h.retire(o.Keep)
	if err := h.keepAccount(o.Plan); err != nil {
		return nil, err
	}
	s := &Shards{h: h, plan: o.Plan, layers: map[int]*layer{}}
	if err := s.open(); err != nil {
		return nil, err
	}
	plans := []*Plan{o.Plan}
	for _, kept := range o.Keep {
		plans = append(plans, kept.plan)
	}
	if err := h.giveBack(plans); err != nil {
		return nil, err
	}
	room := s.measure()
	if err := s.checkRoom(room, o.Memory); err != nil {
		return nil, err
	}
	p := &packer{s: s, crew: h.o.Team, progress: o.Progress, ready: &atomic.Int64{}}
	if len(o.Keep) > 0 {
		before := h.works.Load()
		background, err := newBackground(h.o.Team.Threads(), func() bool { return h.works.Load() != before })
		if err != nil {
			return nil, err
		}
		defer background.close()
		p.crew = background
	}
	defer p.free()
	p.ready.Store(room.plan - room.missing)
	o.Progress(p.ready.Load(), o.Plan.Bytes)
	for _, pl := range o.Plan.Layers {
		if err := s.loadLayer(ctx, p, pl); err != nil {
			return nil, fmt.Errorf("load layer %d: %w", pl.Number, err)
		}
	}
	if err := s.checkPlaces(); err != nil {
		return nil, err
	}
	s.noteFallbacks()
	s.noteUnlimited()
	if len(o.Keep) == 0 {
		h.forgetReads()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loaded[s] = true
	return s, nil
}

// open maps all arenas of the plan.
func (s *Shards) open() error {
	for _, pl := range s.plan.Layers {
		l := &layer{number: pl.Number, owned: make([]bool, s.plan.Experts*s.plan.Parts), arenas: make([]*arena.Arena, s.plan.Parts)}
		s.plan.own(pl.Number, l.owned)
		for part, slots := range pl.Slots {
			if len(slots) == 0 {
				continue
			}
			var err error
			if l.held, l.arenas[part], err = s.h.open(s.plan, pl.Number, part); err != nil {
				return err
			}
		}
		s.layers[pl.Number] = l
	}
	return nil
}

// loadLayer packs what a layer lacks, lets the checkpoint's pages go, and looks where the layer's pages lie.
func (s *Shards) loadLayer(ctx context.Context, p *packer, pl PlanLayer) error {
	l := s.layers[pl.Number]
	packed := make([]bool, len(l.owned))
	touched := map[int]bool{}
	for part, owned := range pl.Slots {
		var slots []int
		for _, slot := range owned {
			if !l.arenas[part].Valid(slot) {
				slots = append(slots, slot)
				packed[slot*len(l.arenas)+part] = true
				touched[slot] = true
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.fill(ctx, l, part, slots); err != nil {
			return err
		}
	}
	for expert := range touched {
		if s.h.o.Pack != nil {
			break
		}
		release(s.h.o.Checkpoint, pl.Number, expert)
	}
	if err := s.place(ctx, p.crew, l, pl, packed); err != nil {
		return err
	}
	s.adopt(pl)
	return nil
}

// release lets the kernel drop the pages of an expert's tensors.
func release(cp *checkpoint.Checkpoint, layer, expert int) {
	names := cp.Config().Expert(layer, expert)
	for _, name := range []string{names.Gate, names.Up, names.Down} {
		if t, err := cp.Tensor(name); err == nil {
			cp.Release(t)
		}
	}
}
