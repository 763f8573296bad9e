package dispatch

import (
	"fmt"
	"slices"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/placement/division"
)

// Ranks of workers for a split.
const (
	unusable uint8 = iota
	avoided        // only for parts that nobody else can take
	good
)

// splitter divides items by owner. Its memory is reused from call to call.
type splitter struct {
	parts int // of each expert
	layer *layerOwners
	rank  []uint8    // by worker
	mine  []*attempt // by worker: its attempt of the split in progress
	made  []*attempt // of the split in progress
	rest  *attempt   // of the split in progress: what nobody takes; nil: nothing

	divider division.Divider
	items   []division.Item // expert parts of the split in progress that somebody takes
	at      []partAt        // by part
	split   uint32          // number of the split in progress

	attempts []*attempt // of the call
	pool     []*attempt // all that there are; the first ones are the call's
}

// partAt is where an expert part is in a split's items.
type partAt struct {
	split uint32 // number of the split that needs it
	item  int32  // nobody: no worker takes it
	owner int32  // of the item's owners: whose share its rows go to at present
}

// reset begins a call.
func (s *splitter) reset(layer *layerOwners, workers int) {
	s.layer, s.attempts = layer, s.attempts[:0]
	s.grow(workers)
}

// grow makes room for workers.
func (s *splitter) grow(workers int) {
	if len(s.mine) < workers {
		s.mine, s.rank = make([]*attempt, workers), make([]uint8, workers)
	}
}

// newAttempt gives an empty attempt of the call.
func (s *splitter) newAttempt(worker int32) *attempt {
	n := len(s.attempts)
	if n == len(s.pool) {
		s.pool = append(s.pool, &attempt{})
	}
	a := s.pool[n]
	a.reset(worker, len(s.layer.first))
	s.attempts = append(s.attempts, a)
	return a
}

// share is the worker's attempt of the split in progress.
func (s *splitter) share(worker int32) *attempt {
	a := s.mine[worker]
	if a == nil {
		a = s.newAttempt(worker)
		s.mine[worker], s.made = a, append(s.made, a)
	}
	return a
}

// check finds experts that the layer doesn't have.
func (s *splitter) check(c *engine.ExpertCall) error {
	experts := int32(len(s.layer.first) / s.parts)
	for row := range c.Choices {
		for _, expert := range c.Choices[row].Experts {
			if expert < 0 || expert >= experts {
				return fmt.Errorf("layer %d, row %d: there is no expert %d; the placement has %d", c.Layer, row, expert, experts)
			}
		}
	}
	return nil
}

// toPrimaries splits a call when every part has one owner, and all can be used. Rows that have an error are left out.
func (s *splitter) toPrimaries(c *engine.ExpertCall) {
	s.begin()
	each(c, s.parts, nil, func(row int32, part uint32, weight float32) {
		s.share(s.layer.first[part]).append(row, part, weight)
	})
	s.end(c)
}

// toBest splits items among the workers that are of a rank at least, those of the best rank that a part has, so that the one with the most to
// do has as little as possible. Items that nobody takes are in s.rest. except may be nobody.
func (s *splitter) toBest(c *engine.ExpertCall, from *attempt, least uint8, except int32) {
	s.begin()
	each(c, s.parts, from, func(_ int32, part uint32, _ float32) {
		if p := s.need(part, least, except); p.item != nobody {
			s.items[p.item].Rows++
		}
	})
	s.divider.Divide(len(s.rank), s.items)
	each(c, s.parts, from, func(row int32, part uint32, weight float32) {
		p := &s.at[part]
		if p.item == nobody {
			if s.rest == nil {
				s.rest = s.newAttempt(nobody)
				s.rest.state = orphan
			}
			s.rest.append(row, part, weight)
			return
		}
		it := &s.items[p.item]
		for it.Shares[p.owner] == 0 {
			p.owner++
		}
		it.Shares[p.owner]--
		s.share(it.Owners[p.owner]).append(row, part, weight)
	})
	s.end(c)
}

// need makes an expert part one of the split's items, with the owners that can take it.
func (s *splitter) need(part uint32, least uint8, except int32) *partAt {
	p := &s.at[part]
	if p.split == s.split {
		return p
	}
	*p = partAt{split: s.split, item: nobody}
	best := least
	for _, owner := range s.layer.of(part) {
		if owner != except {
			best = max(best, s.rank[owner])
		}
	}
	n := len(s.items)
	s.items = slices.Grow(s.items, 1)[:n+1] // with the memory of an item of another split
	it := &s.items[n]
	it.Rows, it.Owners = 0, it.Owners[:0]
	for _, owner := range s.layer.of(part) {
		if owner != except && s.rank[owner] == best {
			it.Owners = append(it.Owners, owner)
		}
	}
	if len(it.Owners) == 0 {
		s.items = s.items[:n]
	} else {
		p.item = int32(n)
	}
	return p
}

// each goes through the items of an attempt, or of a whole call but for rows that have an error.
func each(c *engine.ExpertCall, parts int, from *attempt, take func(row int32, part uint32, weight float32)) {
	if from != nil {
		w := &from.work
		for k, row := range from.rows {
			for i := w.Offsets[k]; i < w.Offsets[k+1]; i++ {
				take(row, w.Parts[i], w.Weights[i])
			}
		}
		return
	}
	for row := range c.Choices {
		if c.RowErr[row] != nil {
			continue
		}
		choice := &c.Choices[row]
		for i, expert := range choice.Experts {
			first := int(expert) * parts
			for part := first; part < first+parts; part++ {
				take(int32(row), uint32(part), choice.Weights[i])
			}
		}
	}
}

// takes says whether somebody of a rank at least can take a part.
func (s *splitter) takes(part uint32, least uint8, except int32) bool {
	for _, owner := range s.layer.of(part) {
		if s.rank[owner] >= least && owner != except {
			return true
		}
	}
	return false
}

// takesAll says whether others can take all of an attempt.
func (s *splitter) takesAll(a *attempt, least uint8, except int32) bool {
	for _, part := range a.distinct {
		if !s.takes(part, least, except) {
			return false
		}
	}
	return true
}

// takesAny says whether others can take something of an attempt.
func (s *splitter) takesAny(a *attempt, least uint8) bool {
	for _, part := range a.distinct {
		if s.takes(part, least, nobody) {
			return true
		}
	}
	return false
}

// begin begins a split.
func (s *splitter) begin() {
	s.made, s.rest, s.items = s.made[:0], nil, s.items[:0]
	if s.split++; len(s.at) < len(s.layer.first) || s.split == 0 {
		s.at, s.split = make([]partAt, len(s.layer.first)), 1
	}
}

// end completes the attempts that were made.
func (s *splitter) end(c *engine.ExpertCall) {
	for _, a := range s.made {
		s.mine[a.worker] = nil
		a.finish()
		a.fill(c)
	}
	if s.rest != nil {
		s.rest.finish()
	}
}
