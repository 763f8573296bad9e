package shard

import (
	"fmt"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// partState is how far an expert part of the request in progress is.
type partState uint8

const (
	unknown  partState = iota // it may be in memory
	absent                    // it has to be read
	here                      // it is in memory, whole, and its checksum was right
	torn                      // it is damaged and has to be packed again
	computed                  // it is in the sums
)

// begin sets the parts and rows of a request; group came before.
func (c *scratch) begin(w *transport.Work) {
	c.x = kernels.Activations{Rows: w.Rows, Columns: w.Hidden, Quantized: w.Quantized, Values: w.Values, Codes: w.Codes, Scales: w.Scales}
	c.ask()
}

// ask makes all parts unknown, and hits until something else is found.
func (c *scratch) ask() {
	c.state, c.hit, c.damaged = resize(c.state, len(c.parts)), resize(c.hit, len(c.parts)), resize(c.damaged, len(c.parts))
	c.plan, c.evicts, c.evictLast, c.rounds, c.accounted, c.missing = c.plan[:0], c.evicts[:0], 0, 0, false, false
	for i := range c.parts {
		c.state[i], c.hit[i], c.damaged[i] = unknown, true, nil
	}
}

// repeat makes a request start anew, but for what it has found out about hits. What was planned is done again: of what is here meanwhile
// nothing is read.
func (c *scratch) repeat() {
	for i := range c.parts {
		c.state[i], c.damaged[i] = unknown, nil
	}
	for _, r := range c.plan {
		c.state[r.index] = absent
	}
}

// look finds out, in parallel, which unknown parts are in memory, and packs damaged ones again, until nothing is unknown or damaged.
func (s *Shards) look(l *layer) error {
	c := &s.h.scratch
	c.layer = l
	for {
		if err := s.h.o.Team.Run(len(c.parts), s.h.lookJob); err != nil {
			return err
		}
		found, err := c.judge()
		if err != nil || !found {
			return err
		}
		c.missing = true
		if c.rounds++; c.rounds > len(c.parts)+2 {
			return fmt.Errorf("expert parts are damaged again and again: %w", c.firstDamage())
		}
		if err := s.rebuild(l); err != nil {
			return err
		}
	}
}

// lookPart is a job of look.
func (h *Holder) lookPart(i, _ int) error {
	c := &h.scratch
	if c.state[i] != unknown {
		return nil
	}
	a, slot := c.layer.slot(c.parts[i])
	ready, err := a.Ready(slot)
	switch {
	case err != nil:
		c.state[i], c.damaged[i] = torn, err
	case ready:
		c.state[i] = here
	default:
		c.state[i] = absent
		c.hit[i] = c.hit[i] && c.accounted
	}
	return nil
}

// judge says whether something is damaged; errors that packing again can't mend are returned.
func (c *scratch) judge() (found bool, err error) {
	for i, st := range c.state {
		if st != torn {
			continue
		}
		if err := c.damaged[i]; !damaged(err) {
			return false, fmt.Errorf("expert part %d: %w", c.parts[i], err)
		}
		found = true
		c.hit[i] = c.hit[i] && c.accounted
	}
	return found, nil
}

func (c *scratch) firstDamage() error {
	for i, st := range c.state {
		if st == torn {
			return c.damaged[i]
		}
	}
	return nil
}

// arrive notes what became of a read.
func (c *scratch) arrive(a arrival) {
	if a.err != nil {
		c.state[a.index], c.damaged[a.index] = torn, a.err
		return
	}
	c.state[a.index] = here
}

// takeRest ends the reads of a demand and makes everything unknown that is not computed, so that it is looked at again.
func (c *scratch) takeRest(d *demand) {
	d.stop()
	for len(d.arrived) > 0 {
		c.arrive(<-d.arrived)
	}
	c.doubt()
}

// doubt makes unknown what is here: packing a truncated file's slots again takes away marks of others.
func (c *scratch) doubt() {
	for i, st := range c.state {
		if st == here {
			c.state[i] = unknown
		}
	}
}

// computed notes that tasks are in the sums; rest are those after them.
func (c *scratch) computed(tasks, rest []task, d *demand) {
	for i := range tasks {
		if t := &tasks[i]; len(rest) == 0 || rest[0].index != t.index {
			c.state[t.index] = computed
		}
	}
	if d != nil {
		d.note(c.state)
	}
}
