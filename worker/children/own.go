package children

import (
	"runtime"
	"sync"
)

// own runs start on an OS thread that lives as long as the children do. The parent-death signal belongs to the thread that
// forked (prctl(2)): were that thread to end earlier, the kernel would kill the children though this process lives.
func (g *Group) own(start func() []func()) {
	runtime.LockOSThread()
	// Not unlocked: the thread ends with this goroutine, after the last child. Unlocking would leave a thread whose end Go
	// decides, which is harmless then, but says less.
	reap := start()
	var all sync.WaitGroup
	for _, wait := range reap {
		all.Go(wait)
	}
	all.Wait()
	g.keepalive.Close()
	close(g.exits)
	close(g.done)
}
