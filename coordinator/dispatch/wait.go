package dispatch

import (
	"fmt"
	"time"
)

// event is what happens to a request while it is under way.
type event struct {
	kind   eventKind
	worker int           // number among the request's workers; not for elapsed
	passed time.Duration // of elapsed
	reason string        // of failed
	err    error         // of failed
}

type eventKind uint8

const (
	progressed eventKind = iota // the worker lives
	answered                    // its result came
	failed                      // it refused, or is gone
	elapsed                     // time passed
)

// verdict is what an event means for the request.
type verdict struct {
	add    bool // count the result: it is the worker's first
	done   bool // nothing is missing any more
	fail   bool // give up, because of worker
	worker int
	reason string
	err    error
}

// waiter follows one request: which workers still owe a result, and for how long each has been silent. It is a pure state
// machine: no clock, no network.
type waiter struct {
	silence, total time.Duration // limits
	owed           int
	states         []waitState
	passed         time.Duration
}

type waitState struct {
	answered bool
	quiet    time.Duration
}

// start begins a request to a number of workers.
func (w *waiter) start(workers int) {
	w.owed, w.passed = workers, 0
	w.states = w.states[:0]
	for range workers {
		w.states = append(w.states, waitState{})
	}
}

// step takes an event. After a verdict with done or fail the request is over.
func (w *waiter) step(e event) verdict {
	if e.kind == elapsed {
		return w.elapse(e.passed)
	}
	s := &w.states[e.worker]
	if s.answered {
		return verdict{done: w.owed == 0} // counted already, whatever the attempt
	}
	s.quiet = 0
	switch e.kind {
	case answered:
		s.answered = true
		w.owed--
		return verdict{add: true, done: w.owed == 0}
	case failed:
		return verdict{fail: true, worker: e.worker, reason: e.reason, err: e.err}
	}
	return verdict{}
}

// elapse finds the worker that has been silent for the longest, if that is too long.
func (w *waiter) elapse(passed time.Duration) verdict {
	w.passed += passed
	silent := -1
	for i := range w.states {
		s := &w.states[i]
		if s.answered {
			continue
		}
		s.quiet += passed
		if silent < 0 || s.quiet > w.states[silent].quiet {
			silent = i
		}
	}
	switch {
	case silent < 0:
		return verdict{done: true}
	case w.states[silent].quiet >= w.silence:
		return verdict{fail: true, worker: silent, reason: fmt.Sprintf("no sign of life for %s", w.silence)}
	case w.passed >= w.total:
		return verdict{fail: true, worker: silent, reason: fmt.Sprintf("still computing after %s", w.total)}
	}
	return verdict{}
}
