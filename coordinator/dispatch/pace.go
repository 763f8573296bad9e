package dispatch

import (
	"math/bits"
	"time"
)

// pace is what is learnt of one worker's latencies, by size of its shares: in each class the numbers of rows differ by less than a factor
// of two. Mean and deviation are smoothed as TCP smooths its round trips (RFC 6298, section 2).
type pace struct{ classes [paceClasses]paceClass }

const (
	paceClasses = 16
	paceSamples = 8 // fewer say nothing
)

type paceClass struct {
	samples         int
	mean, deviation time.Duration
}

func classOf(rows int) int { return min(bits.Len(uint(rows)), paceClasses-1) }

// observe takes the time from sending a share of some rows to its result.
func (p *pace) observe(rows int, latency time.Duration) {
	c := &p.classes[classOf(rows)]
	if c.samples == 0 {
		c.samples, c.mean, c.deviation = 1, latency, latency/2
		return
	}
	c.samples = min(c.samples+1, paceSamples)
	c.deviation += ((c.mean - latency).Abs() - c.deviation) / 4
	c.mean += (latency - c.mean) / 8
}

// delay is how long a share of some rows may take before it is late: twice the mean and four deviations, and not below floor; 0: not known.
func (p *pace) delay(rows int, floor time.Duration) time.Duration {
	c := &p.classes[classOf(rows)]
	if c.samples < paceSamples {
		return 0
	}
	return max(2*c.mean+4*c.deviation, floor)
}

// health is what this coordinator itself has seen of one worker, whatever membership knows.
type health struct {
	gone  time.Time // since when nobody listens to it, and membership has not been told; zero: somebody does
	until time.Time // when it is no longer avoided
	step  time.Duration
}

const (
	firstAvoid = time.Second
	longAvoid  = 30 * time.Second
	// goneGrace is for how long it is not told that a worker has no listeners: whoever started it knows a moment later how it ended.
	goneGrace = time.Second
)

// avoid keeps work from a worker for a while, each time longer if it has done nothing since.
func (h *health) avoid(now time.Time) {
	if now.Before(h.until) {
		return
	}
	h.step = min(max(2*h.step, firstAvoid), longAvoid)
	h.until = now.Add(h.step)
}
