package shard

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/kernels"
)

// bring makes the expert parts of a request resident as a whole, in parallel, and rebuilds those whose slots are damaged. A part counts
// as a hit only if it was resident in every attempt. read is the bytes that were not resident.
func (s *Shards) bring(l *layer) (read int64, err error) {
	c := &s.h.scratch
	c.damaged = resize(c.damaged, len(c.parts))
	c.layer = l
	if err := s.h.o.Team.Run(len(c.parts), s.h.bringJob); err != nil {
		return 0, err
	}
	damaged := false
	for i, id := range c.parts {
		if !c.hit[i] {
			read += int64(s.plan.Shapes[int(id)%len(l.arenas)].Bytes())
		}
		if err := c.damaged[i]; err != nil {
			if !errors.Is(err, arena.ErrTorn) && !errors.Is(err, arena.ErrTruncated) {
				return read, fmt.Errorf("expert part %d: %w", id, err)
			}
			damaged = true
		}
	}
	if damaged {
		err = s.rebuild(l)
	}
	return read, err
}

// bringPart is a job of bring.
func (h *Holder) bringPart(i, _ int) error {
	c := &h.scratch
	id := c.parts[i]
	a, slot := c.layer.slot(id)
	hit, err := a.Bring(slot)
	c.damaged[i] = err
	if err == nil && !hit {
		h.locate(c.layer, id)
	}
	c.hit[i] = c.hit[i] && hit && err == nil
	return nil
}

// rebuild packs the damaged expert parts of a request again.
func (s *Shards) rebuild(l *layer) error {
	c := &s.h.scratch
	var first error
	slots := map[int][]int{} // by part
	for i, id := range c.parts {
		if err := c.damaged[i]; err != nil {
			first = cmp.Or(first, err)
			slots[int(id)%len(l.arenas)] = append(slots[int(id)%len(l.arenas)], int(id)/len(l.arenas))
		}
	}
	s.h.o.Log("warning: layer %d: damaged expert parts are packed again: %v", l.number, first)
	for part, damaged := range slots {
		shape := s.plan.Shapes[part]
		err := l.arenas[part].Fill(damaged, func(slot int, dst []byte) error {
			return s.h.o.pack(shape, l.number, slot, part, len(l.arenas), dst)
		})
		if err != nil {
			return fmt.Errorf("pack damaged experts of part %d again: %w", part, err)
		}
		for _, slot := range damaged {
			s.h.locate(l, uint32(slot*len(l.arenas)+part))
		}
	}
	return nil
}

// ask sets the expert parts that bring is to bring.
func (c *scratch) ask(parts []uint32) {
	c.parts = append(c.parts[:0], parts...)
	c.expectHits()
}

// expectHits makes every part of the request a hit until an attempt finds otherwise.
func (c *scratch) expectHits() {
	c.hit = resize(c.hit, len(c.parts))
	for i := range c.hit {
		c.hit[i] = true
	}
}

// mend is called after a memory fault: it finds and rebuilds the damaged slots of the request. fault is returned if there are none,
// errDamaged if the work should be repeated.
func (s *Shards) mend(l *layer, fault error) error {
	if _, err := s.bring(l); err != nil {
		return fmt.Errorf("%w; %w", fault, err)
	}
	for _, err := range s.h.scratch.damaged {
		if err != nil {
			return fmt.Errorf("%w: %w", errDamaged, fault)
		}
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
