package transport

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWork sends work of all sizes through small and large payload limits.
func TestWork(t *testing.T) {
	t.Parallel()
	for _, payload := range []int{0, 64 << 10} {
		s := startServer(t, ServerOptions{MaxPayload: payload})
		near, far := connect(t, s, true), connect(t, s, false)
		requester := newTestRequester(t, near, "c")
		newTestResponder(t, far, "c", "w0", "i0", &testHandler{work: func(_ context.Context, w *Work) (*Result, error) { return sumOf(w), nil }})
		replies := make(chan Reply, 16)
		for i, rows := range []int{1, 3, 100, 40, 2} {
			for _, quantized := range []bool{false, true} {
				w := testWork(uint64(i+1), rows, 200+i*300, quantized)
				if err := requester.Send("w0", w, replies); err != nil {
					t.Fatal(err)
				}
				got := receive(t, replies)
				if got.Err != nil || got.Result == nil {
					t.Fatalf("payload %d rows %d: %+v", payload, rows, got)
				}
				want := sumOf(w)
				want.Request, want.Attempt = w.Request, w.Attempt
				want.ComputeTime, want.QueueTime = got.Result.ComputeTime, got.Result.QueueTime
				if d := cmp.Diff(want, got.Result); d != "" {
					t.Fatalf("payload %d rows %d: %s", payload, rows, d)
				}
				if got.Worker != "w0" || got.Request != w.Request || got.Attempt != 1 {
					t.Fatalf("reply %+v", got)
				}
				requester.Recycle(got.Result)
			}
		}
		if requester.Malformed() != 0 {
			t.Fatalf("%d malformed messages", requester.Malformed())
		}
	}
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
	if err := requester.Assign(testContext(t), "w0", &Assign{}); !errors.Is(err, ErrNoWorker) {
		t.Fatal(err)
	}
	if err := requester.Send("no.such", testWork(1, 1, 8, true), replies); err == nil {
		t.Fatal("an id with a dot was taken")
	}
}
