package membership

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

// TestAnyHistory: whatever happens in whatever order, the promises of check and do hold, and once all is quiet every worker that is there and
// wants to stay serves the active plan, those that want to leave have left, and nothing changes any more.
func TestAnyHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.do(w.await(rapid.IntRange(1, 3).Draw(t, "minimum")))
		beat := func(*rapid.T) {
			if p := w.some(); p != nil {
				w.send(p)
			}
		}
		with := func(f func(p *simulated)) func(*rapid.T) {
			return func(*rapid.T) {
				if p := w.some(); p != nil {
					f(p)
				}
			}
		}
		for range rapid.IntRange(0, 4).Draw(t, "processes at first") {
			w.start()
		}
		for range rapid.IntRange(0, 6).Draw(t, "seconds at first") {
			w.second()
		}
		steps := map[string]func(*rapid.T){
			"ticks": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 2, 4, 9, 13, 50}).Draw(t, "ticks") {
					w.do(w.tick())
					w.check()
				}
			},
			"second":      func(*rapid.T) { w.second() },
			"second too":  func(*rapid.T) { w.second() },
			"start":       func(*rapid.T) { w.start() },
			"start too":   func(*rapid.T) { w.start() },
			"beat":        beat,
			"beat too":    beat,
			"load":        with(func(p *simulated) { p.load() }),
			"cut off":     with(func(p *simulated) { p.silent = true }),
			"reconnect":   with(func(p *simulated) { p.silent = false }),
			"end":         with(func(p *simulated) { p.ended = true }),
			"wants out":   with(func(p *simulated) { p.leaving = true }),
			"unreachable": func(*rapid.T) { w.do(w.unreachable(w.id())) },
			"uncovered":   func(*rapid.T) { w.do(w.uncovered()) },
			"last word": with(func(p *simulated) {
				p.leaving, w.drained[p.beat.Instance] = true, true
				w.send(p)
			}),
			"forgets": with(func(p *simulated) {
				if n := len(p.beat.Serves); n > 0 {
					at := rapid.IntRange(0, n-1).Draw(t, "which")
					p.beat.Serves = slices.Delete(slices.Clone(p.beat.Serves), at, at+1)
				}
			}),
			"fails to load": with(func(p *simulated) {
				if p.beat.State == transport.StateLoading {
					p.beat.State, p.beat.Error = transport.StateFailed, "disk full"
				}
			}),
			"taken": with(func(p *simulated) {
				if !p.leaving && p.beat.Coordinator != "other" {
					p.take("other", uint64(rapid.IntRange(7, 8).Draw(t, "term")), &placement.Plan{Epoch: 1})
				}
			}),
			"process ended": func(*rapid.T) {
				id := w.id()
				if m := w.members[id]; m != nil {
					if p := w.holder(id, m.beat.Instance); p != nil {
						p.ended = true
					}
				}
				w.do(w.fail(id, "exit status 1"))
			},
			"drain": func(*rapid.T) {
				actions, _ := w.drain(w.id())
				w.do(actions)
			},
			"rebalance": func(*rapid.T) {
				actions, _ := w.askRebalance()
				w.do(actions)
			},
			"deny": func(*rapid.T) {
				id := w.id()
				if m := w.members[id]; m != nil && m.lost == "" {
					if plan := w.unprepared(m); plan != nil {
						w.do(w.deny(id, m.beat.Instance, plan, "does not take it"))
					}
				}
			},
			"compute": func(t *rapid.T) { w.compute(rapid.IntRange(0, 9).Draw(t, "impossible") == 0) },
			"commit": func(t *rapid.T) {
				w.commit(rapid.SampledFrom([]error{nil, nil, errors.New("no quorum"), ErrPlanRefused}).Draw(t, "answer"))
			},
		}
		kinds := slices.Sorted(maps.Keys(steps))
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			steps[rapid.SampledFrom(kinds).Draw(t, "step")](t)
			w.check()
		}
		w.quiet()
	})
}

// quiet lets everything come to rest.
func (w *world) quiet() {
	for _, old := range w.earlier {
		old.ended = true
	}
	if rapid.IntRange(0, 3).Draw(w.t, "restarts") > 0 {
		for _, id := range []string{"a", "b", "c"} {
			if p := w.processes[id]; p == nil || p.ended {
				w.instances++
				w.processes[id] = &simulated{beat: *idle(id, fmt.Sprint("i", w.instances))}
			}
		}
	}
	for _, p := range w.processes {
		p.silent = false
		if p.beat.Coordinator == "other" {
			p.beat.Coordinator, p.beat.Epoch, p.beat.Term, p.beat.Serves, p.beat.State = "", 0, 0, nil, transport.StateIdle
		}
	}
	for _, m := range w.members {
		m.unfitFor = min(m.unfitFor, unfitTicks)
	}
	for range 200 {
		w.second()
	}
	var stay, late []string
	for id, m := range w.members {
		if w.candidate(m) {
			stay = append(stay, id)
		}
	}
	slices.Sort(stay)
	if w.active == nil && len(stay) < w.minimum || len(stay) == 0 { // too few; or those that leave or have failed serve on
		return
	}
	if w.active == nil {
		w.t.Fatalf("nothing was placed on %v", stay)
	}
	for _, id := range stay {
		if err := w.usable(id); err != nil || !names(w.active, id) {
			late = append(late, fmt.Sprintf("%s: %v", id, err))
		}
	}
	if w.pending != nil || !w.allCovered() || len(late) > 0 || len(w.active.Owned) != len(stay) {
		w.t.Fatalf("after a long quiet time: pending %+v, uncovered %d, late %s, placed on %v of %v", w.pending, w.coverage().parts,
			strings.Join(late, "; "), slices.Sorted(maps.Keys(w.active.Owned)), stay)
	}
	for id, m := range w.members {
		if m.lost == "" && m.draining {
			w.t.Fatalf("%s has not left", id)
		}
	}
	epoch := w.epoch
	for range 100 {
		w.second()
	}
	if w.epoch != epoch || w.pending != nil {
		w.t.Fatalf("epoch %d became %d though nothing happened", epoch, w.epoch)
	}
}
