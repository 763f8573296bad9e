package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// expectSum checks a reply against what sumOf says.
func expectSum(t *testing.T, w *Work, got Reply) {
	t.Helper()
	if got.Err != nil || got.Result == nil {
		t.Fatalf("rows %d: %+v", w.Rows, got)
	}
	want := sumOf(w)
	want.Request, want.Attempt = w.Request, w.Attempt
	want.ComputeTime, want.QueueTime = got.Result.ComputeTime, got.Result.QueueTime
	if d := cmp.Diff(want, got.Result, compareMessages); d != "" {
		t.Fatalf("rows %d: %s", w.Rows, d)
	}
	if got.Worker != "w0" || got.Request != w.Request || got.Attempt != w.Attempt {
		t.Fatalf("reply %+v", got)
	}
}

func answerSums(_ context.Context, w *Work) (*Result, error) { return sumOf(w), nil }

// TestWork sends work of all sizes through small and large payload limits, through a channel and an Exchange.
func TestWork(t *testing.T) {
	t.Parallel()
	for _, payload := range []int{0, 64 << 10} {
		s := startServer(t, ServerOptions{MaxPayload: payload})
		requester := newTestRequester(t, connect(t, s, true), "c")
		newTestResponder(t, connect(t, s, false), "c", "w0", "i0", &testHandler{work: answerSums})
		replies, exchange := make(chan Reply, 16), requester.NewExchange(4)
		for i, rows := range []int{1, 3, 100, 40, 2} {
			for _, quantized := range []bool{false, true} {
				w := testWork(uint64(2*i+1), rows, 200+i*300, quantized)
				if err := requester.Send("w0", w, replies); err != nil {
					t.Fatal(err)
				}
				got := receive(t, replies)
				expectSum(t, w, got)
				requester.Recycle(got.Result)

				w.Request++
				if err := exchange.Send("w0", w); err != nil {
					t.Fatal(err)
				}
				got = receiveFrom(t, exchange)
				expectSum(t, w, got)
				exchange.Recycle(got.Result)
			}
		}
		if requester.Malformed() != 0 {
			t.Fatalf("%d malformed messages", requester.Malformed())
		}
	}
}

// TestInterleaved: several coordinators send large work to one worker at once, in parts of 64 KiB, and each gets its own sums; one
// Work is computed at a time.
func TestInterleaved(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{MaxPayload: 64 << 10})
	var running sync.Mutex
	newTestResponder(t, connect(t, s, false), "c", "w0", "i0", &testHandler{work: func(ctx context.Context, w *Work) (*Result, error) {
		if !running.TryLock() {
			return nil, errors.New("two at a time")
		}
		defer running.Unlock()
		return sumOf(w), nil
	}})
	var done sync.WaitGroup
	for c := range 3 {
		requester := newTestRequester(t, connect(t, s, c == 0), "c")
		for g := range 2 {
			done.Go(func() {
				exchange := requester.NewExchange(4)
				for i := range 4 {
					w := testWork(uint64(100*g+i+1), 60+10*c, 900, i%2 == 0)
					w.Attempt = uint32(c)
					if err := exchange.Send("w0", w); err != nil {
						t.Error(err)
						return
					}
					got := receiveFrom(t, exchange)
					want := sumOf(w)
					if got.Result == nil || !slices.Equal(want.Sum, got.Result.Sum) || got.Attempt != w.Attempt {
						t.Errorf("coordinator %d, goroutine %d, work %d: wrong answer, error %v", c, g, i, got.Err)
						return
					}
				}
			})
		}
	}
	done.Wait()
}

func TestNoWorker(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	replies := make(chan Reply, 4)
	if err := requester.Send("w0", testWork(1, 1, 8, true), replies); err != nil {
		t.Fatal(err)
	}
	if r := receive(t, replies); !errors.Is(r.Err, ErrNoWorker) || r.Request != 1 || r.Worker != "w0" {
		t.Fatalf("%+v", r)
	}
	exchange := requester.NewExchange(1)
	if err := exchange.Send("w0", testWork(2, 1, 8, true)); err != nil {
		t.Fatal(err)
	}
	if r := receiveFrom(t, exchange); !errors.Is(r.Err, ErrNoWorker) || r.Request != 2 {
		t.Fatalf("%+v", r)
	}
	if err := requester.Assign(testContext(t), "w0", &Assign{}); !errors.Is(err, ErrNoWorker) {
		t.Fatal(err)
	}
	if err := requester.Send("no.such", testWork(3, 1, 8, true), replies); err == nil {
		t.Fatal("an id with a dot was taken")
	}
}

// TestWorkerGoes: work that a worker has taken is answered with ErrNoWorker once a later message finds nobody.
func TestWorkerGoes(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	started, far := make(chan struct{}), connect(t, s, false)
	r, err := NewResponder(far, "c", "w0", "i0", &testHandler{work: func(ctx context.Context, w *Work) (*Result, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	flush(t, far)
	replies := make(chan Reply, 64)
	if err := requester.Send("w0", testWork(1, 1, 8, true), replies); err != nil {
		t.Fatal(err)
	}
	<-started
	far.nats.Close() // as a killed process
	r.Close()
	waitFor(t, "the server has noticed", func() bool { return s.nats.NumClients() == 1 })
	if err := requester.Send("w0", testWork(2, 1, 8, true), replies); err != nil {
		t.Fatal(err)
	}
	for missing := map[uint64]bool{1: true, 2: true}; len(missing) > 0; {
		got := receive(t, replies)
		if !errors.Is(got.Err, ErrNoWorker) {
			t.Fatalf("%+v", got)
		}
		delete(missing, got.Request)
	}
}

// TestErrors: what a handler returns, and a panic, arrive as errors of that work; the worker goes on.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	newTestResponder(t, connect(t, s, false), "c", "w0", "i0", &testHandler{work: func(_ context.Context, w *Work) (*Result, error) {
		switch w.Request {
		case 1:
			return nil, &RemoteError{Code: CodeWrongEpoch, Message: "epoch 1, not 2"}
		case 2:
			return nil, fmt.Errorf("wrapped: %w", &RemoteError{Code: CodeStaleTerm, Message: "term"})
		case 3:
			return nil, errors.New("disk on fire")
		case 4:
			panic("boom")
		case 5:
			return nil, nil
		case 6:
			r := sumOf(w)
			r.Sum = r.Sum[1:]
			return r, nil
		}
		return sumOf(w), nil
	}})
	replies := make(chan Reply, 4)
	for request, want := range map[uint64]RemoteError{
		1: {Code: CodeWrongEpoch, Message: "epoch 1, not 2"}, 2: {Code: CodeStaleTerm, Message: "term"}, 3: {Code: CodeInternal, Message: "disk on fire"},
		4: {Code: CodeInternal, Message: "boom"}, 5: {Code: CodeInternal, Message: "no result"}, 6: {Code: CodeInternal, Message: "sum:"},
	} {
		if err := requester.Send("w0", testWork(request, 2, 8, true), replies); err != nil {
			t.Fatal(err)
		}
		got := receive(t, replies)
		var remote *RemoteError
		if !errors.As(got.Err, &remote) || remote.Worker != "w0" || remote.Code != want.Code || !strings.Contains(remote.Message, want.Message) {
			t.Errorf("request %d: %v", request, got.Err)
		}
	}
	w := testWork(7, 2, 8, true)
	if err := requester.Send("w0", w, replies); err != nil {
		t.Fatal(err)
	}
	expectSum(t, w, receive(t, replies))
}

// TestProgressAndControl: while one Work runs and another waits, both are reported alive, and control messages are handled; the
// waiting one's queue time is measured.
func TestProgressAndControl(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	release := make(chan struct{})
	h := &testHandler{work: func(ctx context.Context, w *Work) (*Result, error) {
		if w.Request == 1 {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return sumOf(w), nil
	}}
	newTestResponder(t, connect(t, s, false), "c", "w0", "i0", h)
	replies := make(chan Reply, 64)
	sent := time.Now()
	for request := range uint64(2) {
		if err := requester.Send("w0", testWork(request+1, 1, 8, true), replies); err != nil {
			t.Fatal(err)
		}
	}
	for alive := map[uint64]bool{}; len(alive) < 2; {
		r := receiveAny(t, replies)
		if r.Err != nil || r.Result != nil || r.Attempt != 1 || r.Worker != "w0" {
			t.Fatalf("%+v", r)
		}
		alive[r.Request] = true
	}
	waiting := time.Now()
	if err := requester.Assign(testContext(t), "w0", &Assign{Coordinator: "me"}); err != nil {
		t.Fatal(err)
	}
	waited := time.Since(waiting)
	close(release)
	for missing := 2; missing > 0; {
		r := receive(t, replies)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		missing--
		if q := time.Duration(r.Result.QueueTime); r.Request == 2 && (q < waited || q > time.Since(sent)) {
			t.Fatalf("queue time %s; it is known to have waited for %s, and was sent %s ago", q, waited, time.Since(sent))
		}
	}
}

// TestQueueLimit: a worker whose queue is full says so, and forgotten replies are dropped.
func TestQueueLimit(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	release := make(chan struct{})
	newTestResponder(t, connect(t, s, false), "c", "w0", "i0", &testHandler{work: func(ctx context.Context, w *Work) (*Result, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return sumOf(w), nil
	}})
	forgotten, replies := make(chan Reply, 4*maxQueuedWork), make(chan Reply, 4)
	for i := range maxQueuedWork + 1 {
		if err := requester.Send("w0", testWork(uint64(i+1), 1, 8, true), forgotten); err != nil {
			t.Fatal(err)
		}
	}
	if err := requester.Send("w0", testWork(1000, 1, 8, true), replies); err != nil {
		t.Fatal(err)
	}
	var remote *RemoteError
	if r := receive(t, replies); !errors.As(r.Err, &remote) || remote.Code != CodeBusy {
		t.Fatalf("%+v", r)
	}
	for i := range maxQueuedWork + 1 {
		requester.Forget(uint64(i + 1))
	}
	for len(forgotten) > 0 {
		<-forgotten // progress from before
	}
	close(release)
	w := testWork(1001, 1, 8, true)
	for busy := true; busy; {
		if err := requester.Send("w0", w, replies); err != nil {
			t.Fatal(err)
		}
		r := receive(t, replies)
		if busy = errors.As(r.Err, &remote) && remote.Code == CodeBusy; !busy {
			expectSum(t, w, r)
		}
	}
	if len(forgotten) != 0 {
		t.Fatalf("%d replies to forgotten requests", len(forgotten))
	}
}

// TestFullChannel: a final reply that finds its channel full comes later; Forget drops it.
func TestFullChannel(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	newTestResponder(t, connect(t, s, false), "c", "w0", "i0", &testHandler{work: answerSums})
	replies := make(chan Reply, 1)
	for i := range uint64(3) {
		if err := requester.Send("w0", testWork(i+1, 1, 8, true), replies); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[uint64]bool{}
	for range 3 {
		r := receive(t, replies)
		if r.Result == nil || seen[r.Request] {
			t.Fatalf("%+v", r)
		}
		seen[r.Request] = true
	}
}

// TestInstances: of two holders of an id only the addressed one takes messages.
func TestInstances(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	handlers := map[string]*testHandler{}
	for _, instance := range []string{"old", "new"} {
		h := &testHandler{work: func(_ context.Context, w *Work) (*Result, error) {
			r := sumOf(w)
			r.BytesRead = int64(len(instance)) + map[string]int64{"old": 100, "new": 200}[instance]
			return r, nil
		}}
		handlers[instance] = h
		newTestResponder(t, connect(t, s, false), "c", "w0", instance, h)
	}
	replies := make(chan Reply, 4)
	for i, instance := range []string{"old", "new", "old"} {
		requester.Address("w0", instance)
		if err := requester.Send("w0", testWork(uint64(i+1), 1, 8, true), replies); err != nil {
			t.Fatal(err)
		}
		if r := receive(t, replies); r.Result == nil || r.Result.BytesRead/100 != map[string]int64{"old": 1, "new": 2}[instance] {
			t.Fatalf("%s: %+v", instance, r)
		}
	}
	if err := requester.Refuse(testContext(t), "w0", "new", &Refuse{Reason: "second"}); err != nil {
		t.Fatal(err)
	}
	if err := requester.Drain(testContext(t), "w0"); err != nil {
		t.Fatal(err)
	}
	for instance, want := range map[string][2]int{"old": {0, 1}, "new": {1, 0}} {
		h := handlers[instance]
		h.mu.Lock()
		if got := [2]int{len(h.refused), h.drained}; got != want {
			t.Errorf("%s: refused and drained %v, want %v", instance, got, want)
		}
		h.mu.Unlock()
	}
}

// TestDrain: what runs is finished, what comes later is refused.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	started, release := make(chan struct{}), make(chan struct{})
	r := newTestResponder(t, connect(t, s, false), "c", "w0", "i0", &testHandler{work: func(ctx context.Context, w *Work) (*Result, error) {
		close(started)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return sumOf(w), nil
	}})
	replies := make(chan Reply, 16)
	w := testWork(1, 1, 8, true)
	if err := requester.Send("w0", w, replies); err != nil {
		t.Fatal(err)
	}
	<-started
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Drain(gone); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	late := make(chan Reply, 4)
	if err := requester.Send("w0", testWork(2, 1, 8, true), late); err != nil {
		t.Fatal(err)
	}
	var remote *RemoteError
	if r := receive(t, late); !errors.As(r.Err, &remote) || remote.Code != CodeNotReady {
		t.Fatalf("%+v", r)
	}
	close(release)
	if err := r.Drain(testContext(t)); err != nil {
		t.Fatal(err)
	}
	expectSum(t, w, receive(t, replies))
}

func TestClosedRequester(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	requester.Close()
	requester.Close()
	if err := requester.Send("w0", testWork(1, 1, 8, true), make(chan Reply, 1)); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := requester.Drain(testContext(t), "w0"); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}
