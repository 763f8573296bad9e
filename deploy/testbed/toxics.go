package testbed

import (
	"runtime"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
	"golang.org/x/sys/unix"
)

// Delay lets bytes pass a fixed time after they came, in the order in which they came. Toxiproxy's own latency counts in milliseconds and sleeps
// on Go's timers, which an idle program rounds up to a millisecond; this one sleeps on the kernel's.
type Delay struct {
	Nanoseconds int64 `json:"nanoseconds"`
}

// GetBufferSize makes room for what is on its way.
func (d *Delay) GetBufferSize() int { return 1024 }

// Pipe implements toxics.Toxic.
func (d *Delay) Pipe(stub *toxics.ToxicStub) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // refused: 50 µs more
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
			if wait := time.Duration(d.Nanoseconds) - time.Since(c.Timestamp); wait > 0 {
				t := unix.NsecToTimespec(wait.Nanoseconds())
				_ = unix.Nanosleep(&t, nil) // a signal ends it early: so be it
			}
			select {
			case stub.Output <- c:
			case <-stub.Interrupt:
				_ = stub.WriteOutput(c, time.Second) // nothing is lost, unless the connection is closed and nobody reads any more
				return
			}
		}
	}
}

// Stall lets nothing pass and loses nothing: a connection that hangs.
type Stall struct{}

// Pipe implements toxics.Toxic.
func (*Stall) Pipe(stub *toxics.ToxicStub) { <-stub.Interrupt }

// register adds both to toxiproxy's kinds.
var register = sync.OnceFunc(func() {
	toxics.Register("delay", new(Delay))
	toxics.Register("stall", new(Stall))
})
