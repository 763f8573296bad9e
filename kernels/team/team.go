// Package team owns a group of OS threads, pinned to CPUs, that share jobs through one counter, or through one for each NUMA
// node. The worker computes expert parts with one, the coordinator its dense layers. It knows nothing of what a job computes.
//
// A layer is some ten runs of a few 100 µs each, and waking a sleeping thread takes 5 to 50 µs, so:
//
//   - Thread 0 is the goroutine that calls Run: it starts at once and needs no wake-up. It is not pinned, since its OS thread
//     belongs to the Go runtime; when a run begins on a CPU of another thread of the team, it moves to its own CPU first.
//   - Threads 1 and up are goroutines of their own, locked to OS threads and pinned. One that wakes too late finds no jobs left
//     and nobody waited for it.
//   - The Go scheduler gets processors for other goroutines beside the threads (processors.go).
//   - After a run these look out for the next one for at most spinTime, and only while that keeps paying off and every thread
//     has a CPU of its own; then they sleep. A caller that knows that no run follows soon says so (Rest).
//
// Unpinned threads are slower: the kernel likes to wake one on the CPU of its waker, where it waits for it.
package team

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/moepool/moepool/numa"
)

// ErrClosed is the error of Run after Close.
var ErrClosed = errors.New("the thread team is closed")

// Team is a fixed group of threads.
type Team struct {
	helpers []*helper // threads 1 and up
	pinned  bool
	spins   bool // every thread has a CPU of its own
	ended   sync.WaitGroup
	caller  caller
	nodes   []Node // nil: all threads are on one
	home    []int  // the index in nodes of each thread

	running sync.Mutex // held by the Run in progress and by Close

	// The run in progress: written by Run while the gate is closed, read by those that passed it.
	job     func(i, thread int) error
	n       int64
	ranged  bool // jobs come from ranges, not from next
	failure failure
	ranges  []jobRange // one for each of nodes

	closed  atomic.Bool
	round   atomic.Uint32 // counts runs: helpers look out for its change
	resting atomic.Bool   // no run is expected soon: helpers don't look out
	gate    gate

	_    [64]byte // the counter is written by all threads: keep its cache line apart from what they only read
	next atomic.Int64
	_    [56]byte
}

// New starts a team of threads: the caller of Run and threads-1 goroutines locked to OS threads, thread i pinned to
// cpus[i%len(cpus)] (not pinned if cpus is empty or pinning is not permitted: Pinned says so).
func New(threads int, cpus []int) (*Team, error) {
	if threads < 1 {
		return nil, fmt.Errorf("a team of %d threads: at least 1 is needed", threads)
	}
	t := &Team{pinned: len(cpus) > 0}
	t.gate.init()
	distinct := slices.Compact(slices.Sorted(slices.Values(cpus)))
	t.spins = threads <= ownProcessors() && threads <= runtime.NumCPU() && (len(cpus) == 0 || threads <= len(distinct))
	addThreads(threads)
	started := make(chan error, threads)
	for i := 1; i < threads; i++ {
		h := &helper{team: t, thread: i, cpu: -1, credit: 1}
		h.init()
		if len(cpus) > 0 {
			h.cpu = cpus[i%len(cpus)]
		}
		t.helpers = append(t.helpers, h)
		t.ended.Add(1)
		go h.main(0, started)
	}
	for range t.helpers {
		if err := <-started; err != nil {
			t.pinned = false
		}
	}
	if t.pinned {
		t.pinned = t.caller.init(cpus[0], t.helpers)
	}
	return t, nil
}

// Threads is the number of threads, the caller of Run included.
func (t *Team) Threads() int { return len(t.helpers) + 1 }

// Pinned says whether every thread is bound to its CPU as the package says.
func (t *Team) Pinned() bool { return t.pinned }

// Run calls job(i, thread) once for each i in [0, n), in ascending order of start, on the team's threads, and waits until all
// have ended. All jobs run even if one fails; the error is that of the lowest i. A panic inside a job, a memory fault
// included (debug.SetPanicOnFault), becomes a *FaultError or *PanicError. One Run at a time: concurrent callers queue, so a
// job must not call Run of its own team. thread in [0, Threads()): two jobs with the same thread never overlap; one job alone
// runs on thread 0, the calling goroutine. A job must not call runtime.Goexit: it would end the caller. Run allocates nothing.
func (t *Team) Run(n int, job func(i, thread int) error) error {
	t.running.Lock()
	defer t.running.Unlock()
	return t.run(n, false, job)
}

// run is a Run whose caller holds running.
func (t *Team) run(n int, ranged bool, job func(i, thread int) error) error {
	if t.closed.Load() {
		return ErrClosed
	}
	if n <= 0 {
		return nil
	}
	t.job, t.n, t.ranged = job, int64(n), ranged
	t.failure.clear()
	t.next.Store(0)
	if n > 1 && len(t.helpers) > 0 {
		if t.pinned {
			t.caller.settle()
		}
		t.resting.Store(false)
		t.gate.open()
		t.round.Add(1)
		t.rouse(1, 1)
		// Deferred: a job that ends this goroutine (runtime.Goexit) must not leave others inside.
		defer t.gate.close(t.spins)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for !t.takeJobs(0) {
	}
	if n > 1 && len(t.helpers) > 0 {
		t.gate.close(t.spins)
	}
	return t.failure.first()
}

// rouse wakes the threads [first, last] as far as this run needs them. Waking takes time of the one that does it, so thread 0
// wakes 1, and each other k wakes 2k and 2k+1.
func (t *Team) rouse(first, last int) {
	for k := first; k <= min(last, len(t.helpers)) && int64(k) < t.n; k++ {
		t.helpers[k-1].rouse()
	}
}

// Rest says that no run is expected soon: threads sleep at once and leave their CPUs to others, which may be what the caller is going to
// wait for. The next Run ends it. It may be called at any time.
func (t *Team) Rest() { t.resting.Store(true) }

// takeJobs runs jobs until there are none (true) or one panicked (false).
func (t *Team) takeJobs(thread int) (finished bool) {
	i := int64(-1)
	defer func() {
		if !finished {
			t.failure.record(i, asError(recover()))
		}
	}()
	for {
		if i = t.take(thread); i < 0 {
			return true
		}
		if err := t.job(int(i), thread); err != nil {
			t.failure.record(i, err)
		}
	}
}

// Close waits for the Run in progress and ends the threads; Run afterwards is ErrClosed. Closing twice does nothing.
func (t *Team) Close() {
	t.running.Lock()
	defer t.running.Unlock()
	if t.closed.Swap(true) {
		return
	}
	t.job = nil
	t.round.Add(1)
	for _, h := range t.helpers {
		h.rouse()
	}
	t.ended.Wait()
	addThreads(-t.Threads())
}

// caller puts the goroutine that calls Run on the CPU of thread 0.
type caller struct {
	cpu     int
	taken   []bool // by CPU number: it is another thread's
	allowed []int
}

// init gives false if threads can't be moved.
func (c *caller) init(cpu int, helpers []*helper) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	allowed, err := numa.ThreadAffinity(0)
	if err != nil || numa.SetThreadAffinity([]int{cpu}) != nil || numa.SetThreadAffinity(allowed) != nil {
		return false
	}
	c.cpu, c.allowed = cpu, allowed
	for _, h := range helpers {
		if h.cpu == cpu {
			continue // more threads than CPUs
		}
		for len(c.taken) <= h.cpu {
			c.taken = append(c.taken, false)
		}
		c.taken[h.cpu] = true
	}
	return true
}

// settle moves the calling goroutine's OS thread if it runs on a CPU of another thread of the team: the kernel would let both
// share it for milliseconds, since the other one is pinned. The affinity is then given back, as the OS thread is the runtime's.
func (c *caller) settle() {
	if cpu := numa.CurrentCPU(); cpu < 0 || cpu >= len(c.taken) || !c.taken[cpu] {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if numa.SetThreadAffinity([]int{c.cpu}) == nil {
		// It was permitted a line above and at New: an error can only mean that the cpuset changed, and then the kernel
		// has replaced the mask already.
		_ = numa.SetThreadAffinity(c.allowed)
	}
}
