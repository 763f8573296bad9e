package dispatch

import (
	"errors"
	"math/rand"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	testSilence = 5 * time.Second
	testTotal   = 60 * time.Second
)

func newWaiter(workers int) *waiter {
	w := &waiter{silence: testSilence, total: testTotal}
	w.start(workers)
	return w
}

func pass(d time.Duration) event { return event{kind: elapsed, passed: d} }

func TestSilenceNamesTheSilent(t *testing.T) {
	t.Parallel()
	w := newWaiter(3)
	steps := []struct {
		e    event
		want verdict
	}{
		{pass(2 * time.Second), verdict{}},
		{event{kind: progressed, worker: 0}, verdict{}},
		{event{kind: answered, worker: 2}, verdict{add: true}},
		{pass(2 * time.Second), verdict{}},
		{event{kind: progressed, worker: 0}, verdict{}},
		{pass(time.Second), verdict{fail: true, worker: 1, reason: "no sign of life for 5s"}},
	}
	for i, s := range steps {
		if got := w.step(s.e); got != s.want {
			t.Fatalf("step %d: %+v, want %+v", i, got, s.want)
		}
	}
}

func TestProgressDoesNotLastForEver(t *testing.T) {
	t.Parallel()
	w := newWaiter(1)
	for passed := time.Duration(0); passed < testTotal-time.Second; passed += time.Second {
		w.step(event{kind: progressed, worker: 0})
		if v := w.step(pass(time.Second)); v != (verdict{}) {
			t.Fatalf("after %s: %+v", passed, v)
		}
	}
	w.step(event{kind: progressed, worker: 0})
	if v := w.step(pass(time.Second)); !v.fail || v.reason != "still computing after 1m0s" {
		t.Fatalf("%+v", v)
	}
}

// TestCountedOnce: whatever comes in whatever order, each worker's result is counted once, and the end comes exactly when all
// have answered.
func TestCountedOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 6).Draw(t, "workers")
		w := newWaiter(workers)
		var events []event
		for i := range workers {
			for range rapid.IntRange(1, 3).Draw(t, "answers") {
				events = append(events, event{kind: answered, worker: i})
			}
			for range rapid.IntRange(0, 3).Draw(t, "progress") {
				events = append(events, event{kind: progressed, worker: i})
			}
		}
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "order"))).Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		counted := make([]int, workers)
		answeredBy := map[int]bool{}
		for _, e := range events {
			v := w.step(e)
			if e.kind == answered {
				answeredBy[e.worker] = true
			}
			if v.add {
				counted[e.worker]++
			}
			if v.fail || v.done && len(answeredBy) != workers || !v.done && e.kind == answered && len(answeredBy) == workers {
				t.Fatalf("%+v with answers of %d of %d", v, len(answeredBy), workers)
			}
		}
		for i, n := range counted {
			if n != 1 {
				t.Fatalf("worker %d counted %d times", i, n)
			}
		}
	})
}

func TestFailedAfterAnswerIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWaiter(2)
	cause := errors.New("x")
	w.step(event{kind: answered, worker: 0})
	if v := w.step(event{kind: failed, worker: 0, reason: "late", err: cause}); v != (verdict{}) {
		t.Fatalf("%+v", v)
	}
	if v := w.step(event{kind: failed, worker: 1, reason: "now", err: cause}); v != (verdict{fail: true, worker: 1, reason: "now", err: cause}) {
		t.Fatalf("%+v", v)
	}
}
