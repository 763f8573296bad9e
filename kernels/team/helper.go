package team

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/moepool/moepool/numa"
)

// helper is one of the threads 1 and up: a goroutine locked to an OS thread.
type helper struct {
	team   *Team
	thread int
	cpu    int // -1: not pinned

	sleeper

	// credit is how much looking out for the next run has paid off lately: up by one when a run came within spinTime, down by
	// one when not. At 0 the helper sleeps at once.
	credit int
}

const maxCredit = 8

// main is the life of a helper. It never unlocks: the OS thread, whose affinity was changed, ends with the goroutine. seen
// is the round after which it looks for work.
func (h *helper) main(seen uint32, started chan<- error) {
	inside, closed := false, false
	defer func() {
		if closed {
			h.team.ended.Done()
			return
		}
		// The job called runtime.Goexit (as testing's FailNow does): another goroutine takes this one's place.
		go h.main(seen, make(chan error, 1))
		if inside {
			h.team.gate.leave()
		}
	}()
	runtime.LockOSThread()
	debug.SetPanicOnFault(true)
	var err error
	if h.cpu >= 0 {
		err = numa.PinThread(h.cpu)
	}
	started <- err
	for {
		seen = h.await(seen)
		if h.team.closed.Load() {
			closed = true
			return
		}
		if inside = h.team.gate.enter(); !inside {
			continue
		}
		h.team.rouse(2*h.thread, 2*h.thread+1)
		for int64(h.thread) < h.team.n && !h.team.takeJobs(h.thread) {
		}
		inside = false
		h.team.gate.leave()
	}
}

// await waits until the round differs from the one that was seen last, and gives it.
func (h *helper) await(seen uint32) uint32 {
	changed := func() bool { return h.team.round.Load() != seen }
	resting := h.team.resting.Load()
	if h.team.spins && h.credit > 0 && !resting {
		ended := spinUntil(func() bool {
			resting = h.team.resting.Load()
			return resting || changed()
		})
		switch {
		case ended && !resting:
			h.credit = min(h.credit+1, maxCredit)
			return h.team.round.Load()
		case !ended:
			h.credit--
		}
	}
	slept := time.Now()
	h.sleep(changed)
	if h.credit == 0 && time.Since(slept) < spinTime {
		h.credit = 1
	}
	return h.team.round.Load()
}
