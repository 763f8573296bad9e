package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// leaving is a worker that may be told to leave.
type leaving struct {
	*bench
	leave func()
	end   context.CancelFunc
	done  chan error

	mu   sync.Mutex
	said []string
}

func startLeaving(t *testing.T, change func(*Options)) *leaving {
	l := &leaving{bench: newBench(t, synth.Tiny("mixtral")), done: make(chan error, 1)}
	o, leave := l.options("w0"), make(chan struct{})
	o.Leave, l.leave = leave, func() { close(leave) }
	o.Log = func(format string, args ...any) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.said = append(l.said, fmt.Sprintf(format, args...))
		t.Logf(format, args...)
	}
	if change != nil {
		change(&o)
	}
	var ctx context.Context
	ctx, l.end = context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.done <- Run(ctx, o)
	}()
	t.Cleanup(func() {
		l.end()
		<-ended
	})
	return l
}

// ends waits for the end, without error, and for what the worker said of it.
func (l *leaving) ends(why string) {
	l.t.Helper()
	select {
	case err := <-l.done:
		if err != nil {
			l.t.Error(err)
		}
	case <-time.After(patience):
		l.t.Fatal("the worker does not end")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if why != "" && !slices.ContainsFunc(l.said, func(line string) bool { return strings.Contains(line, why) }) {
		l.t.Errorf("it said %q, want %q", l.said, why)
	}
}

// serve assigns some expert parts and waits until they are served.
func (l *leaving) serve(epoch uint64, layers []transport.LayerParts) {
	l.t.Helper()
	if err := l.assign("w0", epoch, 1, l.identity(kernels.Q8, 2), layers); err != nil {
		l.t.Fatal(err)
	}
	l.await("serving", "w0", func(b *transport.Beat) bool { return slices.Contains(b.Serves, epoch) })
}

// TestLeave: a worker that leaves says so and serves until it is let go.
func TestLeave(t *testing.T) {
	t.Parallel()
	some := []transport.LayerParts{{Layer: 0, Parts: []uint32{0, 1}}}
	other := []transport.LayerParts{{Layer: 0, Parts: []uint32{0, 1, 2}}}
	for name, c := range map[string]struct {
		change func(*Options)
		finish func(l *leaving)
		why    string
	}{
		"let go":            {nil, func(l *leaving) { _ = l.requester.Drain(t.Context(), "w0") }, ""},
		"no place any more": {nil, func(l *leaving) { l.activate(2, 1) }, "has no experts on it"},
		"silence":           {nil, func(l *leaving) { l.silent() }, "works for no coordinator"},
		"second signal":     {nil, func(l *leaving) { l.end() }, ""},
		"timeout":           {func(o *Options) { o.DrainTimeout = 100 * time.Millisecond }, func(*leaving) {}, "after 100ms of draining"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startLeaving(t, c.change)
			ref := l.reference(kernels.Q8, 2)
			l.awaitState("w0", transport.StateIdle)
			l.serve(1, some)
			l.leave()
			draining := l.awaitState("w0", transport.StateDraining)
			if !slices.Equal(draining.Serves, []uint64{1}) || draining.Epoch != 1 {
				t.Errorf("draining: %+v", draining)
			}
			if c.change == nil {
				w := ref.work(t, 1, 1, 0, 0, 1)
				r, err := l.ask("w0", w)
				if err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(r.Sum) != ref.sum(t, w) {
					t.Error("the sums differ while it drains")
				}
				remote(t, "more expert parts", l.assign("w0", 2, 1, l.identity(kernels.Q8, 2), other), transport.CodeNotReady)
				// A new leader with the same plan is served, too.
				second := l.coordinate("second")
				if err := second.assign("w0", 1, 2, l.identity(kernels.Q8, 2), some); err != nil {
					t.Fatal(err)
				}
				second.await("the second coordinator's", "w0", func(b *transport.Beat) bool {
					return b.Coordinator == "second" && b.State == transport.StateDraining && slices.Equal(b.Serves, []uint64{1})
				})
				if err := l.assign("w0", 1, 3, l.identity(kernels.Q8, 2), some); err != nil {
					t.Fatal(err)
				}
				second.silent()
				if c.why == "has no experts on it" {
					l.activate(2, 3)
					l.ends(c.why)
					return
				}
			}
			c.finish(l)
			if c.why != "works for no coordinator" {
				l.await("the last word", "w0", func(b *transport.Beat) bool { return b.State == transport.StateDraining && len(b.Serves) == 0 })
			}
			l.ends(c.why)
		})
	}
}

// TestLeaveWithNothing: a worker without experts ends at once, whether it waits for NATS, for an assignment, or has an empty one.
func TestLeaveWithNothing(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(l *leaving) string{
		"idle": func(l *leaving) string {
			l.awaitState("w0", transport.StateIdle)
			return "works for no coordinator"
		},
		"empty": func(l *leaving) string {
			l.awaitState("w0", transport.StateIdle)
			l.serve(1, nil)
			return "owns no experts"
		},
		"no connection": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startLeaving(t, func(o *Options) {
				if prepare == nil {
					o.Connect.URL = "nats://127.0.0.1:1"
				}
			})
			why := ""
			if prepare != nil {
				why = prepare(l)
			}
			l.leave()
			l.ends(why)
		})
	}
}
