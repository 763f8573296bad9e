package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
	"github.com/nats-io/nats.go"
)

// TestRowErrors: a row that a worker can't compute gets a typed error naming layer and worker, whatever the order of answers: not finite
// before overflow, as in one worker that computes all of it, and of equal errors the lowest worker's. The other rows are untouched.
func TestRowErrors(t *testing.T) { overLanes(t, overRowErrors) }

func overRowErrors(t *testing.T, lane string) {
	b := newLaneBench(t, lane, 1, 2, 0, nil)
	slow := make(chan struct{})
	b.workers[0].does(func(_ context.Context, w *transport.Work, r *transport.Result) error {
		<-slow // the higher worker's answer comes first
		r.RowErrors = make([]uint8, w.Rows)
		r.RowErrors[1], r.RowErrors[2] = transport.RowOverflow, transport.RowOverflow
		return nil
	})
	b.workers[1].does(func(_ context.Context, w *transport.Work, r *transport.Result) error {
		close(slow)
		r.RowErrors = make([]uint8, w.Rows)
		r.RowErrors[1], r.RowErrors[2] = transport.RowOverflow, transport.RowNotFinite
		return nil
	})
	choice := router.Choice{Experts: []int32{0, 1}, Weights: []float32{1, 1}}
	c := testCall(true, 32, []router.Choice{choice, choice, choice, choice})
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	if c.RowErr[0] != nil || c.RowErr[3] != nil {
		t.Fatal(c.RowErr)
	}
	if !errors.Is(c.RowErr[1], kernels.ErrOverflow) || c.RowErr[1].Error() != fmt.Sprintf("layer %d, worker w0: %v", testLayer, kernels.ErrOverflow) {
		t.Fatal(c.RowErr[1])
	}
	if !errors.Is(c.RowErr[2], kernels.ErrNotFinite) || !strings.Contains(c.RowErr[2].Error(), "worker w1") {
		t.Fatal(c.RowErr[2])
	}
	want := expected(c, 1)
	for _, row := range []int{0, 3} {
		for col := range 32 {
			if c.Sum[row*32+col] != want[row*32+col] {
				t.Fatalf("row %d was changed", row)
			}
		}
	}
}

// expectWorkerError checks that a call fails because of one worker.
func expectWorkerError(t *testing.T, err error, worker, reason string) *WorkerError {
	t.Helper()
	var w *WorkerError
	if !errors.As(err, &w) || w.Worker != worker || w.Layer != testLayer || !strings.Contains(w.Reason, reason) ||
		!strings.Contains(err.Error(), worker) {
		t.Fatalf("%v; want worker %s: %s", err, worker, reason)
	}
	return w
}

// TestRefused: a worker's typed errors come through.
func TestRefused(t *testing.T) { overLanes(t, overRefused) }

func overRefused(t *testing.T, lane string) {
	b := newLaneBench(t, lane, 1, 2, 0, nil)
	b.workers[1].setEpoch(2)
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
	w := expectWorkerError(t, err, "w1", "wrong-epoch: work of epoch 1, worker has epoch 2")
	var remote *transport.RemoteError
	if !errors.As(w, &remote) || remote.Code != transport.CodeWrongEpoch {
		t.Fatal(w.Err)
	}
	if n := b.dispatcher.Counters()["w1"]; n.Failures != 1 {
		t.Fatalf("%+v", n)
	}
	// The next call, with the right epoch, is not disturbed by what came late.
	b.workers[1].setEpoch(1)
	c := testCall(true, 32, someChoices(5))
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, 1)
}

// TestWrongResult: a result that is not one of the work that was sent is an error, not a wrong sum.
func TestWrongResult(t *testing.T) { overLanes(t, overWrongResult) }

func overWrongResult(t *testing.T, lane string) {
	for name, change := range map[string]func(r *transport.Result){
		"fewer rows":  func(r *transport.Result) { r.Rows--; r.Sum = r.Sum[r.Hidden:] },
		"less wide":   func(r *transport.Result) { r.Hidden /= 2; r.Sum = r.Sum[:len(r.Sum)/2] },
		"fewer parts": func(r *transport.Result) { r.Parts, r.Hits = r.Parts[1:], make([]byte, (len(r.Parts)+6)/8) },
		"other parts": func(r *transport.Result) { r.Parts[len(r.Parts)-1]++ },
	} {
		b := newLaneBench(t, lane, 1, 1, 0, nil)
		b.workers[0].does(func(_ context.Context, _ *transport.Work, r *transport.Result) error { change(r); return nil })
		_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
		t.Log(name)
		expectWorkerError(t, err, "w0", "its result is of")
	}
}

// TestGone: a worker whose process is gone is an error soon.
func TestGone(t *testing.T) { overLanes(t, overGone) }

func overGone(t *testing.T, lane string) {
	b := newLaneBench(t, lane, 1, 2, 0, nil)
	b.responders[1].Close()
	if err := b.conns[1].Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
	if !slices.Contains(b.members.unreachable, "w1") {
		t.Errorf("unreachable workers %v", b.members.unreachable)
	}
	if w := expectWorkerError(t, err, "w1", ""); !errors.Is(w, transport.ErrNoWorker) {
		t.Fatal(w.Err)
	}
}

// TestKilled: a worker whose process ends while it computes is found to be gone before it counts as silent.
func TestKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 1, 0, func(o *Options) { o.Silence = testDeadline })
	b.workers[0].does(func(ctx context.Context, _ *transport.Work, _ *transport.Result) error {
		go b.conns[0].Close()
		<-ctx.Done()
		return nil
	})
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
	if w := expectWorkerError(t, err, "w0", ""); !errors.Is(w, transport.ErrNoWorker) {
		t.Fatal(w.Err)
	}
}

// impostor replaces a worker by a process that answers each work by itself; nil is what a stopped process does: nothing. Like such a process
// it still has its subscriptions, so that probes find it.
func (b *bench) impostor(t *testing.T, i int, answer func(m *nats.Msg)) {
	t.Helper()
	b.responders[i].Close()
	raw, err := nats.Connect(b.server.URL(), nats.Token(b.server.Token()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	for kind, answer := range map[string]func(m *nats.Msg){"work": answer, "ctl": nil} {
		_, err = raw.Subscribe("moe.c."+kind+"."+b.workers[i].id, func(m *nats.Msg) {
			if answer != nil {
				answer(m)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := raw.Flush(); err != nil {
		t.Fatal(err)
	}
}

func shortSilence(o *Options) { o.Silence = 300 * time.Millisecond }

// TestHang: a worker that takes work and is silent is named, whether it says nothing or only what can't be understood.
func TestHang(t *testing.T) { overLanes(t, overHang) }

func overHang(t *testing.T, lane string) {
	for name, answer := range map[string]func(m *nats.Msg){
		"silent":    nil,
		"malformed": func(m *nats.Msg) { _ = m.Respond([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLaneBench(t, lane, 1, 1, 0, shortSilence)
			b.impostor(t, 0, answer)
			_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
			if w := expectWorkerError(t, err, "w0", "no sign of life for 300ms"); w.Err != nil {
				t.Fatal(w.Err)
			}
		})
	}
}

// TestProgress: work that takes longer than the permitted silence is fine as long as the worker says that it goes on.
func TestProgress(t *testing.T) { overLanes(t, overProgress) }

func overProgress(t *testing.T, lane string) {
	b := newLaneBench(t, lane, 1, 1, 0, func(o *Options) { o.Silence = 3 * time.Second })
	b.workers[0].does(func(ctx context.Context, _ *transport.Work, _ *transport.Result) error {
		select {
		case <-time.After(3500 * time.Millisecond):
		case <-ctx.Done():
		}
		return nil
	})
	c := testCall(true, 32, someChoices(4))
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, 1)
}

// TestTotal: there is a limit even for work that goes on.
func TestTotal(t *testing.T) { overLanes(t, overTotal) }

func overTotal(t *testing.T, lane string) {
	b := newLaneBench(t, lane, 1, 1, 0, func(o *Options) { o.Total = 300 * time.Millisecond })
	b.workers[0].does(func(ctx context.Context, _ *transport.Work, _ *transport.Result) error { <-ctx.Done(); return nil })
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
	expectWorkerError(t, err, "w0", "still computing after 300ms")
}

// TestCancel: the end of ctx ends the call at once, and what comes late disturbs nobody.
func TestCancel(t *testing.T) { overLanes(t, overCancel) }

func overCancel(t *testing.T, lane string) {
	b := newLaneBench(t, lane, 1, 1, 0, nil)
	started, release := make(chan struct{}), make(chan struct{})
	b.workers[0].does(func(ctx context.Context, w *transport.Work, _ *transport.Result) error {
		if w.Rows == 4 {
			close(started)
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return nil
	})
	ctx, cancel := context.WithCancelCause(testContext(t))
	stopped := errors.New("Ctrl-C")
	go func() {
		<-started
		cancel(stopped)
	}()
	if _, err := b.dispatcher.Compute(ctx, testCall(true, 32, someChoices(4))); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	if _, err := b.dispatcher.Compute(ctx, testCall(true, 32, someChoices(4))); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	close(release)
	c := testCall(true, 32, someChoices(5))
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, 1)
}

// TestLost: what membership knows ends a call that waits, and one that begins.
func TestLost(t *testing.T) { overLanes(t, overLost) }

func overLost(t *testing.T, lane string) {
	b := newLaneBench(t, lane, 1, 2, 0, nil)
	cause := errors.New("no beat for 5 s")
	b.workers[1].does(func(ctx context.Context, _ *transport.Work, _ *transport.Result) error {
		b.members.setLost("w1", cause)
		<-ctx.Done()
		return nil
	})
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
	if w := expectWorkerError(t, err, "w1", cause.Error()); !errors.Is(w, cause) {
		t.Fatal(w.Err)
	}
	_, err = b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
	expectWorkerError(t, err, "w1", cause.Error())
	// Workers that aren't needed don't matter.
	c := testCall(true, 32, []router.Choice{{Experts: []int32{0}, Weights: []float32{1}}})
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, 1)
}

// TestAnsweredTwice: two processes that hold the same id both answer; the sums are counted once.
func TestAnsweredTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 2, 0, nil)
	b.addWorker(t, "w0")
	for i := range 10 {
		c := testCall(true, 32, someChoices(3+i))
		if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
			t.Fatal(err)
		}
		expectSums(t, c, 1)
	}
}

// TestNewPlacement: a call uses the plan that is there when it begins.
func TestNewPlacement(t *testing.T) { overLanes(t, overNewPlacement) }

func overNewPlacement(t *testing.T, lane string) {
	b := newLaneBench(t, lane, 1, 2, 0, nil)
	c := testCall(true, 32, someChoices(6))
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	b.members.change(func() { b.members.plan = testPlan(t, 9, 1, 1) })
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(6)))
	expectWorkerError(t, err, "w0", "work of epoch 9")
	b.workers[0].setEpoch(9)
	c = testCall(false, 32, someChoices(6))
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, 1)
	b.members.change(func() { b.members.plan = nil })
	if _, err := b.dispatcher.Compute(testContext(t), c); err == nil || !strings.Contains(err.Error(), "not ready") {
		t.Fatal(err)
	}
}

// TestConcurrentCalls: calls from several goroutines are computed one after the other.
func TestConcurrentCalls(t *testing.T) { overLanes(t, overConcurrentCalls) }

func overConcurrentCalls(t *testing.T, lane string) {
	b := newLaneBench(t, lane, 2, 2, 0, nil)
	var done sync.WaitGroup
	for g := range 4 {
		done.Go(func() {
			for i := range 5 {
				c := testCall(g%2 == 0, 64, someChoices(1+g+i))
				if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
					t.Error(err)
					return
				}
				want := expected(c, 2)
				for j := range want {
					if c.Sum[j] != want[j] {
						t.Errorf("goroutine %d call %d: wrong sums", g, i)
						return
					}
				}
			}
		})
	}
	done.Wait()
}

func TestBadCallsAndOptions(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 1, 0, nil)
	c := testCall(true, 32, someChoices(2))
	c.Sum = c.Sum[1:]
	if _, err := b.dispatcher.Compute(testContext(t), c); err == nil || !strings.Contains(err.Error(), "63 sums") {
		t.Fatal(err)
	}
	snapshot := func() engine.Residency { return nil }
	for i, o := range []Options{
		{}, {Requester: b.requester, Members: b.members, Snapshot: snapshot}, {Requester: b.requester, Members: b.members, Parts: 1},
		{Requester: b.requester, Members: b.members, Snapshot: snapshot, Parts: 1, Silence: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("options %d were taken", i)
		}
	}
}
