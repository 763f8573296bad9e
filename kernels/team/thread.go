package team

import (
	"runtime"
	"runtime/debug"

	"github.com/moepool/moepool/numa"
)

// thread is one goroutine locked to an OS thread.
type thread struct {
	team  *Team
	index int
	wake  chan struct{} // capacity 1; closed by Close
}

// main is the life of a thread. It never unlocks: the OS thread, whose affinity was changed, ends with the goroutine.
func (th *thread) main(cpu int, started chan<- error) {
	closed := false
	defer func() {
		if closed {
			th.team.ended.Done()
			return
		}
		// The job called runtime.Goexit (as testing's FailNow does): another goroutine takes its place.
		go th.main(cpu, make(chan error, 1))
		th.leave()
	}()
	runtime.LockOSThread()
	debug.SetPanicOnFault(true)
	var err error
	if cpu >= 0 {
		err = numa.PinThread(cpu)
	}
	started <- err
	for range th.wake {
		for !th.takeJobs() {
		}
		th.leave()
	}
	closed = true
}

// leave tells the team that this thread takes no more jobs; the last one ends the run.
func (th *thread) leave() {
	if th.team.busy.Add(-1) == 0 {
		th.team.done <- struct{}{}
	}
}

// takeJobs runs jobs until there are none (true) or one panicked (false).
func (th *thread) takeJobs() (finished bool) {
	t := th.team
	i := int64(-1)
	defer func() {
		if finished {
			return
		}
		t.failure.record(i, asError(recover()))
	}()
	for {
		if i = t.next.Add(1) - 1; i >= t.n {
			return true
		}
		if err := t.job(int(i), th.index); err != nil {
			t.failure.record(i, err)
		}
	}
}
