package dispatch

import (
	"math/bits"
	"sync"
	"time"

	"github.com/moepool/moepool/transport"
)

// Answer is a worker's answer that was counted: what it took. What is neither queue nor computing is the way there and back, and the
// coding of the messages.
type Answer struct {
	Worker         string
	Layer, Rows    int
	Sent           time.Time
	Latency        time.Duration // from there to the answer
	Queue, Compute time.Duration // at the worker, by its own clock
}

// WorkerCounters are what one worker's requests have cost since the start.
type WorkerCounters struct {
	Requests    uint64
	Failures    uint64 // requests that this worker refused, or for which it was lost or silent
	Late        uint64 // requests that others answered before, when they were asked, too
	Latency     time.Duration
	ComputeTime time.Duration
	QueueTime   time.Duration
	Hits        uint64 // expert parts that were resident
	Misses      uint64
	BytesRead   uint64
	Rows        uint64
}

// counters holds WorkerCounters by worker.
type counters struct {
	mu      sync.Mutex
	workers map[string]*WorkerCounters
}

func (c *counters) of(worker string) *WorkerCounters {
	n := c.workers[worker]
	if n == nil {
		n = &WorkerCounters{}
		c.workers[worker] = n
	}
	return n
}

func (c *counters) result(worker string, r *transport.Result, latency time.Duration) (hits, misses int) {
	for _, b := range r.Hits {
		hits += bits.OnesCount8(b)
	}
	hits = min(hits, len(r.Parts)) // bits beyond the last part mean nothing
	misses = len(r.Parts) - hits
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.of(worker)
	n.Requests++
	n.Latency += latency
	n.ComputeTime += time.Duration(r.ComputeTime)
	n.QueueTime += time.Duration(r.QueueTime)
	n.Hits += uint64(hits)
	n.Misses += uint64(misses)
	n.BytesRead += uint64(r.BytesRead)
	n.Rows += uint64(r.Rows)
	return hits, misses
}

func (c *counters) failure(worker string, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if late {
		c.of(worker).Late++
	} else {
		c.of(worker).Failures++
	}
}

// Counters gives the counters of every worker that was asked for something.
func (d *Dispatcher) Counters() map[string]WorkerCounters {
	d.counters.mu.Lock()
	defer d.counters.mu.Unlock()
	all := make(map[string]WorkerCounters, len(d.counters.workers))
	for id, n := range d.counters.workers {
		all[id] = *n
	}
	return all
}
