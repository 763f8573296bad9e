package shard

import (
	"sync/atomic"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/transport"
)

// scratch is the memory of Compute, reused from call to call.
type scratch struct {
	// by expert part or pair (group)
	count   []int32 // by expert·parts+part
	parts   []uint32
	first   []int32 // by index into parts, and one more: its first pair
	rows    []int32
	weights []float32

	// by index into parts (request.go)
	layer   *layer
	state   []partState
	hit     []bool
	damaged []error

	reads     []read // of one round
	rounds    int    // in which something damaged was found
	accounted bool   // hits are the ledger's
	missing   bool   // something had to be read or packed

	// what the ledger planned (reads.go)
	plan               []read
	evicts             []residency.Part
	evictLast          int // from there on: when all is computed
	filed, filedFilled []uint32

	// tasks and one wave's intermediates
	tasks    []task
	identity []int32
	gate     []float32
	prepared []float32
	codes    []int8
	scales   []float32
	arranged []int8 // codes and terms of the gathered intermediates
	terms    []uint64
	gateJobs []gateJob

	x       kernels.Activations // of the work
	current wave
	threads []threadScratch
	rowErr  []rowError
}

// threadScratch is one thread's memory. The padding keeps two threads' headers out of one cache line.
type threadScratch struct {
	product  []float32        // of one job, [rows, width]: up's, then down's
	gathered kernels.Gathered // the rows of the task that the thread worked at last
	task     int              // that task; -1: none of this wave
	_        [64]byte
}

// counter counts down across threads.
type counter struct{ n atomic.Int32 }

func (c *counter) set(n int)  { c.n.Store(int32(n)) }
func (c *counter) last() bool { return c.n.Add(-1) == 0 }

// rowError is the error of a row, found by any thread.
type rowError struct{ code atomic.Uint32 }

// set notes an error. "Not finite" outranks "overflow", whoever comes first, so that threads don't decide.
func (e *rowError) set(code uint8) {
	for {
		old := e.code.Load()
		if old == uint32(transport.RowNotFinite) || old == uint32(code) || e.code.CompareAndSwap(old, uint32(code)) {
			return
		}
	}
}
