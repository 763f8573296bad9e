package transport

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestProgressAndControl: while one Work runs and another waits, both are reported alive, and control messages are handled; the
// waiting one's queue time is measured.
func TestProgressAndControl(t *testing.T) { overLanes(t, overProgressAndControl) }

func overProgressAndControl(t *testing.T, lane string) {
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
	newLaneResponder(t, lane, requester, connect(t, s, false), h)
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
func TestQueueLimit(t *testing.T) { overLanes(t, overQueueLimit) }

func overQueueLimit(t *testing.T, lane string) {
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	release := make(chan struct{})
	newLaneResponder(t, lane, requester, connect(t, s, false), &testHandler{work: func(ctx context.Context, w *Work) (*Result, error) {
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
func TestFullChannel(t *testing.T) { overLanes(t, overFullChannel) }

func overFullChannel(t *testing.T, lane string) {
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	newLaneResponder(t, lane, requester, connect(t, s, false), &testHandler{work: answerSums})
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
func TestInstances(t *testing.T) { overLanes(t, overInstances) }

func overInstances(t *testing.T, lane string) {
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	join := map[string]func(*Requester){}
	handlers := map[string]*testHandler{}
	for _, instance := range []string{"old", "new"} {
		h := &testHandler{work: func(_ context.Context, w *Work) (*Result, error) {
			r := sumOf(w)
			r.BytesRead = int64(len(instance)) + map[string]int64{"old": 100, "new": 200}[instance]
			return r, nil
		}}
		handlers[instance] = h
		join[instance] = offerLane(t, lane, newTestResponder(t, connect(t, s, false), "c", "w0", instance, h))
	}
	replies := make(chan Reply, 4)
	for i, instance := range []string{"old", "new", "old"} {
		requester.Address("w0", instance)
		join[instance](requester)
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
func TestDrain(t *testing.T) { overLanes(t, overDrain) }

func overDrain(t *testing.T, lane string) {
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	started, release := make(chan struct{}), make(chan struct{})
	r := newLaneResponder(t, lane, requester, connect(t, s, false), &testHandler{work: func(ctx context.Context, w *Work) (*Result, error) {
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
