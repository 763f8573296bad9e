package team

import (
	"runtime"
	"sync"
)

// The Go scheduler lets GOMAXPROCS goroutines run at a time. A team's threads count among them while they compute, and while they look out
// for the next run; with as many threads as CPUs none is left over then for the goroutines that receive and send, and a helper that
// wakes up has to wait for one of them: 15 to 20 % of a decode step, measured on two CPUs. So there are always spareProcessors more
// than threads. The kernel shares out the CPUs.
const spareProcessors = 2

var processors struct {
	mutex   sync.Mutex
	threads int // of all open teams
	before  int // GOMAXPROCS without them
}

// addThreads counts a team's threads in or, if negative, out.
func addThreads(n int) {
	p := &processors
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := runtime.GOMAXPROCS(0)
	if p.threads == 0 {
		p.before = now
	}
	p.threads += n
	want := p.before
	if p.threads > 0 {
		want = max(want, p.threads+spareProcessors)
	}
	if want != now { // the call stops the world
		runtime.GOMAXPROCS(want)
	}
}

// ownProcessors is GOMAXPROCS without what teams added.
func ownProcessors() int {
	p := &processors
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.threads == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return p.before
}
