package shard

import (
	"fmt"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/residency"
)

// bring reads the unknown expert parts of a request as a whole, in parallel, and packs those again whose slots are damaged.
func (s *Shards) bring(l *layer) (damaged int, err error) {
	c := &s.h.scratch
	c.layer = l
	if err := s.h.o.Team.Run(len(c.parts), s.h.bringJob); err != nil {
		return 0, err
	}
	if found, err := c.judge(); err != nil || !found {
		return 0, err
	}
	for _, st := range c.state {
		if st == torn {
			damaged++
		}
	}
	return damaged, s.rebuild(l)
}

// bringPart is a job of bring.
func (h *Holder) bringPart(i, _ int) error {
	c := &h.scratch
	if c.state[i] != unknown {
		return nil
	}
	c.state[i] = here
	if _, err := h.fetch(residency.Part{Layer: c.layer.number, ID: c.parts[i]}); err != nil {
		c.state[i], c.damaged[i] = torn, err
	}
	return nil
}

// rebuild packs the damaged expert parts of a request again. Whatever is not computed is unknown then.
func (s *Shards) rebuild(l *layer) error {
	c := &s.h.scratch
	s.h.o.Log("warning: layer %d: damaged expert parts are packed again: %v", l.number, c.firstDamage())
	slots := map[int][]int{} // by part
	for i, id := range c.parts {
		if c.state[i] == torn {
			slots[int(id)%len(l.arenas)] = append(slots[int(id)%len(l.arenas)], int(id)/len(l.arenas))
			c.state[i], c.damaged[i] = unknown, nil
		}
	}
	for part, damaged := range slots {
		shape := s.plan.Shapes[part]
		err := l.arenas[part].Fill(damaged, func(slot int, dst []byte) error {
			return s.h.o.pack(shape, l.number, slot, part, len(l.arenas), dst)
		})
		if err != nil {
			return fmt.Errorf("pack damaged experts of part %d again: %w", part, err)
		}
		for _, slot := range damaged {
			p := residency.Part{Layer: l.number, ID: uint32(slot*len(l.arenas) + part)}
			s.h.locate(p)
			if s.h.ledger != nil && !l.arenas[part].InFile(slot) {
				s.h.ledger.remove(p) // its disk failed, and it lies in anonymous memory now
			}
		}
	}
	c.doubt()
	return nil
}

// mend is called after a memory fault in the kernels: it finds and rebuilds the damaged slots of what was here. fault is returned if there
// are none, errDamaged if the work should be repeated.
func (s *Shards) mend(l *layer, fault error) error {
	s.h.scratch.doubt()
	damaged, err := s.bring(l)
	switch {
	case err != nil:
		return fmt.Errorf("%w; %w", fault, err)
	case damaged > 0:
		return fmt.Errorf("%w: %w", errDamaged, fault)
	}
	return fault
}

// expert gives a part's matrices.
func (s *Shards) expert(l *layer, id uint32) (kernels.Expert, error) {
	a, slot := l.slot(id)
	data := a.Bytes(slot)
	if data == nil {
		return kernels.Expert{}, fmt.Errorf("expert part %d is not loaded", id)
	}
	return s.plan.Shapes[int(id)%len(l.arenas)].Split(data), nil
}
