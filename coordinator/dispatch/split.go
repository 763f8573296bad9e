package dispatch

import (
	"fmt"

	"github.com/moepool/moepool/coordinator/engine"
)

// Ranks of workers for a split.
const (
	unusable uint8 = iota
	avoided        // only for parts that nobody else can take
	good
)

// partCost is what reading an expert part's weights costs, in rows: how much longer a worker takes for the first row of a part than for
// another one (38 GB/s of weights against 556 G operations/s in docs' measurements: about 7).
const partCost = 8

// splitter divides items by owner. Its memory is reused from call to call.
type splitter struct {
	parts int // of each expert
	layer *layerOwners
	rank  []uint8    // by worker
	load  []int      // by worker: rows of the call, and partCost for each expert part
	mine  []*attempt // by worker: its attempt of the split in progress
	made  []*attempt // of the split in progress
	rest  *attempt   // of the split in progress: what nobody takes; nil: nothing
	seen  []uint32   // by part: the number of the split that counted it
	split uint32

	attempts []*attempt // of the call
	pool     []*attempt // all that there are; the first ones are the call's
}

// reset begins a call.
func (s *splitter) reset(layer *layerOwners, workers int) {
	s.layer, s.attempts = layer, s.attempts[:0]
	s.grow(workers)
}

// grow makes room for workers.
func (s *splitter) grow(workers int) {
	if len(s.mine) < workers {
		s.mine, s.rank, s.load = make([]*attempt, workers), make([]uint8, workers), make([]int, workers)
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
	for row := range c.Choices {
		if c.RowErr[row] != nil {
			continue
		}
		choice := &c.Choices[row]
		for i, expert := range choice.Experts {
			first := int(expert) * s.parts
			for part := first; part < first+s.parts; part++ {
				s.share(s.layer.first[part]).append(int32(row), uint32(part), choice.Weights[i])
			}
		}
	}
	s.end(c)
}

// toBest splits items among the workers that are of a rank at least: each goes to the owner that has the least to do then. Items that
// nobody takes are in s.rest. except may be nobody.
func (s *splitter) toBest(c *engine.ExpertCall, from *attempt, least uint8, except int32) {
	s.begin()
	s.weigh()
	each(c, s.parts, from, func(_ int32, part uint32, _ float32) {
		worker, several := s.choose(part, least, except)
		if worker == nobody || several {
			return
		}
		if s.seen[part] != s.split {
			s.seen[part] = s.split
			s.load[worker] += partCost
		}
		s.load[worker]++
	})
	each(c, s.parts, from, func(row int32, part uint32, weight float32) {
		worker, several := s.choose(part, least, except)
		if worker == nobody {
			if s.rest == nil {
				s.rest = s.newAttempt(nobody)
				s.rest.state = orphan
			}
			s.rest.append(row, part, weight)
			return
		}
		a := s.share(worker)
		if several {
			s.load[worker]++
			if !a.has(part) {
				s.load[worker] += partCost
			}
		}
		a.append(row, part, weight)
	})
	s.end(c)
}

// each goes through the items of an attempt, or of a whole call.
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

// choose is the owner that would have the least to do with one more row of a part, of the best rank that there is; of equals the first
// in the plan's order. several: there was a choice.
func (s *splitter) choose(part uint32, least uint8, except int32) (worker int32, several bool) {
	worker = nobody
	var best int
	for _, owner := range s.layer.of(part) {
		rank := s.rank[owner]
		if rank < least || owner == except {
			continue
		}
		cost := s.load[owner] + partCost
		if a := s.mine[owner]; a != nil && a.has(part) {
			cost -= partCost
		}
		switch {
		case worker == nobody || rank > s.rank[worker]:
			worker, best, several = owner, cost, false
		case rank == s.rank[worker]:
			several = true
			if cost < best {
				worker, best = owner, cost
			}
		}
	}
	return worker, several
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
func (s *splitter) begin() { s.made, s.rest = s.made[:0], nil }

// weigh finds what the workers have to do already.
func (s *splitter) weigh() {
	if s.split++; len(s.seen) < len(s.layer.first) || s.split == 0 {
		s.seen, s.split = make([]uint32, len(s.layer.first)), 1
	}
	clear(s.load)
	for _, a := range s.attempts {
		if a.state == waiting {
			s.load[a.worker] += len(a.work.Parts) + partCost*len(a.distinct)
		}
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
