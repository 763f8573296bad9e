package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/transport"
	"pgregory.net/rapid"
)

// world drives a job as workers, a network and passing time might, and checks after each event what must hold.
type world struct {
	t       *rapid.T
	j       *job
	call    *engine.ExpertCall
	parts   int
	workers int
	copies  int
	epoch   uint64
	lost    []int
	well    bool // nothing fails any more
	want    map[item]float32
	counted map[item]int
	flying  []*attempt // sent, and not answered, refused or forgotten
	ended   []*attempt // answered, refused or forgotten: what comes for them now is a late answer, or a second one
}

// see gives the job a view.
func (w *world) view() *view {
	avoid := rapid.SliceOfNDistinct(rapid.IntRange(0, w.workers-1), 0, 2, rapid.ID[int]).Draw(w.t, "avoid")
	return testView(w.t, w.j.roster, testOwners(w.t, w.epoch, w.parts, w.workers, w.copies), w.lost, avoid)
}

// act does what the job wants done.
func (w *world) act() {
	for i := 0; i < len(w.j.out); i++ {
		a := w.j.out[i].attempt
		switch w.j.out[i].kind {
		case actSend:
			expectAttempt(w.t, w.call, a, w.want)
			if w.j.view.why[a.worker] != nil {
				w.t.Fatalf("work is sent to worker %d, which is lost", a.worker)
			}
			if a.work.Epoch != w.epoch || a.work.Attempt == 0 {
				w.t.Fatalf("work is sent of epoch %d, attempt %d", a.work.Epoch, a.work.Attempt)
			}
			for _, part := range a.distinct {
				if !slices.Contains(w.j.layer.of(part), a.worker) {
					w.t.Fatalf("part %d is sent to worker %d, which has it not", part, a.worker)
				}
			}
			w.flying = append(w.flying, a)
			if !w.well && rapid.IntRange(0, 9).Draw(w.t, "not sent") == 0 {
				w.refuse(a, errors.New("not connected"))
			}
		case actAdd:
			if a.result == nil {
				w.t.Fatal("a result is added that has not come")
			}
			for _, it := range expectAttempt(w.t, w.call, a, w.want) {
				if w.counted[it]++; w.counted[it] > 1 {
					w.t.Fatalf("%+v is counted twice", it)
				}
			}
			a.result = nil
		case actForget:
			w.end(a)
			a.result = nil
		}
	}
	w.j.out = w.j.out[:0]
	w.check()
}

// check checks that each item that is not counted is with exactly one attempt, and with at most one more that hedges it.
func (w *world) check() {
	with, hedged := map[item]int{}, map[item]int{}
	open := 0
	for _, a := range w.j.attempts {
		if a.state == over {
			continue
		}
		where := with
		if a.rival != nil {
			where = hedged
			if a.rival.state != waiting {
				w.t.Fatal("a hedge of nothing")
			}
		} else {
			open++
		}
		for k, row := range a.rows {
			for _, part := range a.work.Parts[a.work.Offsets[k]:a.work.Offsets[k+1]] {
				where[item{row, part}]++
			}
		}
	}
	left := 0
	for it := range w.want {
		if w.counted[it]+with[it] != 1 || hedged[it] > with[it] {
			w.t.Fatalf("%+v is counted %d times, with %d attempts and %d hedges", it, w.counted[it], with[it], hedged[it])
		}
		left += with[it]
	}
	if open != w.j.open || (w.j.outcome == done) != (left == 0) || w.j.outcome == failed {
		w.t.Fatalf("outcome %d (%v) with %d items left, %d attempts open, the job counts %d", w.j.outcome, w.j.err, left, open, w.j.open)
	}
}

func (w *world) end(a *attempt) {
	w.flying = slices.DeleteFunc(w.flying, func(f *attempt) bool { return f == a })
	w.ended = append(w.ended, a)
}

func (w *world) answer(a *attempt) {
	w.end(a)
	if !w.j.answered(a, &transport.Result{}) {
		w.t.Fatal("an answer that is waited for is not taken")
	}
}

func (w *world) refuse(a *attempt, err error) {
	w.end(a)
	w.j.refused(a, failure{err.Error(), err})
}

// event lets something happen.
func (w *world) event() {
	one := func(of []*attempt) *attempt {
		if len(of) == 0 {
			return nil
		}
		return of[rapid.IntRange(0, len(of)-1).Draw(w.t, "which")]
	}
	switch kind := rapid.SampledFrom([]string{"answer", "answer", "refuse", "progress", "late", "time", "time", "lost", "plan"}).Draw(w.t, "event"); kind {
	case "answer":
		if a := one(w.flying); a != nil {
			w.answer(a)
		}
	case "refuse":
		if a := one(w.flying); a != nil {
			w.refuse(a, rapid.SampledFrom([]error{
				transport.ErrNoWorker, &connectionError{errors.New("not connected")}, &transport.RemoteError{Code: transport.CodeWrongEpoch}, &transport.RemoteError{Code: transport.CodeBusy},
			}).Draw(w.t, "error"))
		}
	case "progress":
		if a := one(w.flying); a != nil {
			w.j.progressed(a)
		}
	case "late": // answers, errors and progress that nobody waits for
		if a := one(w.ended); a != nil && a.state != held {
			before := len(w.j.out)
			if w.j.answered(a, &transport.Result{}) {
				w.t.Fatal("a late answer is taken")
			}
			w.j.refused(a, failure{"late", nil})
			w.j.progressed(a)
			if len(w.j.out) != before {
				w.t.Fatal("a late reply has changed something")
			}
		}
	case "time":
		w.j.elapsed(time.Duration(rapid.SampledFrom([]int{1, 20, 250, 1000, 6000}).Draw(w.t, "ms")) * time.Millisecond)
	case "lost", "plan":
		if kind == "plan" {
			w.epoch++
			w.copies = rapid.IntRange(1, 3).Draw(w.t, "copies")
		}
		w.lost = rapid.SliceOfNDistinct(rapid.IntRange(0, w.workers-1), 0, w.workers, rapid.ID[int]).Draw(w.t, "lost")
		w.j.look(w.view())
	}
	w.act()
}

// TestCountedOnce: whatever answers, fails, is late, lost or placed anew in whatever order, each item of a call is counted exactly once, the
// end comes exactly when all are, and nothing is sent to a worker that can't be used or doesn't own it. When the workers are well again,
// the call ends.
func TestCountedOnce(t *testing.T) {
	t.Parallel()
	jobs := map[int]*job{1: newTestJob(1), 2: newTestJob(2)} // memory that is used again
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, parts: rapid.IntRange(1, 2).Draw(t, "parts"), workers: rapid.IntRange(1, 4).Draw(t, "workers"),
			copies: rapid.IntRange(1, 3).Draw(t, "copies"), epoch: 1, counted: map[item]int{}}
		w.j = jobs[w.parts]
		w.j.limits.missing, w.j.limits.total = time.Hour, time.Hour
		hedge := time.Duration(rapid.SampledFrom([]int{0, 10, 300}).Draw(t, "hedge")) * time.Millisecond
		w.j.delay = func(int32, int) time.Duration { return hedge }
		w.call = testCall(rapid.Bool().Draw(t, "quantized"), 3, drawChoices(t))
		w.want = itemsOf(w.call, w.parts)
		w.lost = rapid.SliceOfNDistinct(rapid.IntRange(0, w.workers-1), 0, w.workers, rapid.ID[int]).Draw(t, "lost")
		if err := w.j.start(w.call, w.view()); err != nil {
			t.Fatal(err)
		}
		w.act()
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			if w.j.outcome == done {
				break
			}
			w.event()
		}
		w.lost, w.well = nil, true
		for round := 0; w.j.outcome != done; round++ {
			if round == 50 {
				t.Fatalf("not done: %d attempts open, parts %v uncovered", w.j.open, w.j.uncovered)
			}
			w.j.look(w.view())
			w.act()
			for len(w.flying) > 0 && w.j.outcome != done {
				w.answer(w.flying[0])
				w.act()
			}
			w.j.elapsed(250 * time.Millisecond)
			w.act()
		}
		for it := range w.want {
			if w.counted[it] != 1 {
				t.Fatalf("%+v is counted %d times", it, w.counted[it])
			}
		}
		if len(w.flying) != 0 {
			t.Fatalf("done, but %d attempts are neither answered nor forgotten", len(w.flying))
		}
	})
}

// TestPace: the delay follows a worker's latencies by size of shares, and not below the floor; before there are some it isn't known.
func TestPace(t *testing.T) {
	t.Parallel()
	var p pace
	for i := range 200 {
		if got := p.delay(1, time.Millisecond); (got == 0) != (i < paceSamples) {
			t.Fatalf("after %d answers %s", i, got)
		}
		p.observe(1, time.Duration(10+i%2)*time.Millisecond)
		p.observe(100, 300*time.Millisecond)
	}
	if got := p.delay(1, time.Millisecond); got < 21*time.Millisecond || got > 25*time.Millisecond {
		t.Errorf("10 and 11 ms give %s", got)
	}
	if got := p.delay(120, time.Millisecond); got < 600*time.Millisecond || got > 610*time.Millisecond {
		t.Errorf("300 ms give %s", got)
	}
	if got := p.delay(1, time.Second); got != time.Second {
		t.Errorf("below a floor of a second: %s", got)
	}
	if got := p.delay(16, time.Millisecond); got != 0 {
		t.Errorf("of shares that never were: %s", got)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	var h health
	now := time.Unix(1000, 0)
	for _, want := range []int{1, 2, 4, 8, 16, 30, 30} {
		h.avoid(now)
		h.avoid(now) // at the same time: the same failure
		if got := h.until.Sub(now); got != time.Duration(want)*time.Second {
			t.Fatalf("avoided for %s, want %d s", got, want)
		}
		now = h.until
	}
	h.step = 0
	if h.avoid(now); h.until.Sub(now) != firstAvoid {
		t.Fatal(fmt.Sprint("after an answer avoided for ", h.until.Sub(now)))
	}
}
