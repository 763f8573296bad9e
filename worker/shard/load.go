package shard

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
)

// Load maps the arenas of a plan, packs what is not in them yet straight from the checkpoint, layer by layer, and verifies where
// the pages lie. More memory than the shards themselves is needed for one layer at most.
func Load(ctx context.Context, o Options) (*Shards, error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	if o.Previous != nil {
		o.Previous.retire()
	}
	s := &Shards{o: o, layers: map[int]*layer{}, limits: defaultLimits}
	if err := s.open(); err != nil {
		return nil, err
	}
	if o.Previous != nil {
		if err := s.giveBack(o.Previous); err != nil {
			return nil, err
		}
		s.o.Previous = nil
	}
	room := s.measure()
	if err := s.checkRoom(room); err != nil {
		return nil, err
	}
	p := &packer{s: s, ready: &atomic.Int64{}}
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
	return s, nil
}

// open maps all arenas of the plan. Slots that are valid but not owned any more are given back.
func (s *Shards) open() error {
	plan := s.o.Plan
	for _, pl := range plan.Layers {
		l := &layer{
			number: pl.Number,
			owned:  make([]bool, plan.Experts*plan.Parts),
			arenas: make([]*arena.Arena, plan.Parts),
			pages:  make([]slotPages, plan.Experts*plan.Parts),
		}
		for _, id := range pl.Owned {
			l.owned[id] = true
		}
		for part, slots := range pl.Slots {
			if len(slots) == 0 {
				continue
			}
			a, err := s.o.Store.Open(arena.Key{Layer: pl.Number, Part: part},
				arena.Geometry{Slots: plan.Experts, SlotBytes: plan.Shapes[part].Bytes()})
			if err != nil {
				return fmt.Errorf("arena of layer %d part %d: %w", pl.Number, part, err)
			}
			l.arenas[part] = a
			s.prefer(a)
			if err := l.punch(a, part, func(id int) bool { return !l.owned[id] }); err != nil {
				return err
			}
		}
		s.layers[pl.Number] = l
	}
	return nil
}

// punch gives back the valid slots of an arena for which the condition on expert·parts+part holds.
func (l *layer) punch(a *arena.Arena, part int, condition func(id int) bool) error {
	parts := len(l.arenas)
	var slots []int
	for expert := range len(l.owned) / parts {
		if a.Valid(expert) && condition(expert*parts+part) {
			slots = append(slots, expert)
		}
	}
	if err := a.Punch(slots...); err != nil {
		return fmt.Errorf("give back %d experts of layer %d part %d: %w", len(slots), l.number, part, err)
	}
	return nil
}

// giveBack punches what only the previous shards own: arenas that the plan doesn't touch at all (open did the others).
func (s *Shards) giveBack(previous *Shards) error {
	for number, old := range previous.layers {
		now := s.layers[number]
		for part, a := range old.arenas {
			if a == nil || now != nil && part < len(now.arenas) && now.arenas[part] == a {
				continue
			}
			if err := old.punch(a, part, func(int) bool { return true }); err != nil {
				return err
			}
		}
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
		if s.o.Pack != nil {
			break
		}
		release(s.o.Checkpoint, pl.Number, expert)
	}
	return s.place(ctx, l, pl, packed)
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

// retire waits for the running Compute and refuses further ones.
func (s *Shards) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
}
