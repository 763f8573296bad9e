package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

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
func TestWork(t *testing.T) { overLanes(t, overWork) }

func overWork(t *testing.T, lane string) {
	for _, payload := range []int{0, 64 << 10} {
		s := startServer(t, ServerOptions{MaxPayload: payload})
		requester := newTestRequester(t, connect(t, s, true), "c")
		newLaneResponder(t, lane, requester, connect(t, s, false), &testHandler{work: answerSums})
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
func TestInterleaved(t *testing.T) { overLanes(t, overInterleaved) }

func overInterleaved(t *testing.T, lane string) {
	s := startServer(t, ServerOptions{MaxPayload: 64 << 10})
	var running sync.Mutex
	r := newTestResponder(t, connect(t, s, false), "c", "w0", "i0", &testHandler{work: func(ctx context.Context, w *Work) (*Result, error) {
		if !running.TryLock() {
			return nil, errors.New("two at a time")
		}
		defer running.Unlock()
		return sumOf(w), nil
	}})
	join := offerLane(t, lane, r)
	var done sync.WaitGroup
	for c := range 3 {
		requester := newTestRequester(t, connect(t, s, c == 0), "c")
		join(requester)
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
func TestWorkerGoes(t *testing.T) { overLanes(t, overWorkerGoes) }

func overWorkerGoes(t *testing.T, lane string) {
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
	offerLane(t, lane, r)(requester)
	replies := make(chan Reply, 64)
	if err := requester.Send("w0", testWork(1, 1, 8, true), replies); err != nil {
		t.Fatal(err)
	}
	<-started
	far.nats.Close() // as a killed process
	r.lanes.close()
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
func TestErrors(t *testing.T) { overLanes(t, overErrors) }

func overErrors(t *testing.T, lane string) {
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	newLaneResponder(t, lane, requester, connect(t, s, false), &testHandler{work: func(_ context.Context, w *Work) (*Result, error) {
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
