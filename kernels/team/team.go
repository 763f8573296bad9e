// Package team owns a group of OS threads, pinned to CPUs, that share jobs through one counter. The worker computes expert
// parts with one, the coordinator its dense layers. It knows nothing of what a job computes.
package team

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrClosed is the error of Run after Close.
var ErrClosed = errors.New("the thread team is closed")

// Team is a fixed group of threads.
type Team struct {
	threads []*thread
	pinned  bool
	ended   sync.WaitGroup

	running sync.Mutex // held by the Run in progress and by Close; the fields below belong to its holder
	closed  bool
	job     func(i, thread int) error
	n       int64
	done    chan struct{} // capacity 1: the last busy thread says that the run is over

	_    [64]byte // the counter is written by all threads: keep its cache line apart from what they only read
	next atomic.Int64
	_    [56]byte
	busy atomic.Int32 // threads that still take jobs

	failure failure
}

// failure keeps the error of the lowest job, so that the outcome doesn't depend on which thread was quicker.
type failure struct {
	sync.Mutex
	job int64
	err error
}

// New starts threads goroutines locked to OS threads, thread i pinned to cpus[i%len(cpus)] (not pinned if cpus is empty
// or pinning is not permitted: Pinned says so).
func New(threads int, cpus []int) (*Team, error) {
	if threads < 1 {
		return nil, fmt.Errorf("a team of %d threads: at least 1 is needed", threads)
	}
	t := &Team{done: make(chan struct{}, 1), pinned: len(cpus) > 0}
	started := make(chan error, threads)
	for i := range threads {
		th := &thread{team: t, index: i, wake: make(chan struct{}, 1)}
		cpu := -1
		if len(cpus) > 0 {
			cpu = cpus[i%len(cpus)]
		}
		t.threads = append(t.threads, th)
		t.ended.Add(1)
		go th.main(cpu, started)
	}
	for range threads {
		if err := <-started; err != nil {
			t.pinned = false
		}
	}
	return t, nil
}

// Threads is the number of threads.
func (t *Team) Threads() int { return len(t.threads) }

// Pinned says whether every thread is pinned to its CPU.
func (t *Team) Pinned() bool { return t.pinned }

// Run calls job(i, thread) once for each i in [0, n), in ascending order of start, on the team's threads, and waits until all
// have ended; the calling goroutine computes nothing itself, so that jobs run on pinned threads only. All jobs run even if one
// fails; the error is that of the lowest i. A panic inside a job, a memory fault included (debug.SetPanicOnFault), becomes a
// *FaultError or *PanicError. One Run at a time: concurrent callers queue, so a job must not call Run of its own team.
// thread in [0, Threads()): two jobs with the same thread never overlap. n jobs wake at most n threads, the lowest ones.
func (t *Team) Run(n int, job func(i, thread int) error) error {
	t.running.Lock()
	defer t.running.Unlock()
	if t.closed {
		return ErrClosed
	}
	if n <= 0 {
		return nil
	}
	t.job, t.n = job, int64(n)
	t.failure.job, t.failure.err = 0, nil
	t.next.Store(0)
	woken := min(n, len(t.threads))
	t.busy.Store(int32(woken))
	for _, th := range t.threads[:woken] {
		th.wake <- struct{}{}
	}
	<-t.done
	t.job = nil
	return t.failure.err
}

// Close waits for the Run in progress and ends the threads; Run afterwards is ErrClosed. Closing twice does nothing.
func (t *Team) Close() {
	t.running.Lock()
	defer t.running.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	for _, th := range t.threads {
		close(th.wake)
	}
	t.ended.Wait()
}
