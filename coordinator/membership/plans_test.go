package membership

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// TestJoin: one that joins later takes part after it has settled; it and the others go on serving the active plan until all serve the new one.
func TestJoin(t *testing.T) {
	t.Parallel()
	s := started(t, "a", "b")
	s.expect(s.beat(idle("c", "ic")), "address c/ic", "log c/ic registered (h, node 0, pid 10)")
	s.expect(s.seconds(1, append(readyAll(1, "a", "b"), idle("c", "ic"))...))
	s.expect(s.seconds(1, append(readyAll(1, "a", "b"), idle("c", "ic"))...), "compute 2")
	s.expect(s.compute(), "log 2 joined: c", "assign a/ia 2", "assign b/ib 2", "assign c/ic 2")
	if s.active.Epoch != 1 || s.usable("c") == nil {
		t.Fatal("c is used before its plan is active")
	}
	s.expect(s.beat(ready("c", 2)))
	s.expect(s.beat(serving("a", "ia", "me", transport.StateLoading, 2, 1)))
	if s.usable("a") != nil || !s.allCovered() {
		t.Fatal("a can't be used while it loads the next plan")
	}
	s.expect(s.beat(ready("b", 2, 1)))
	s.expect(s.beat(ready("a", 2, 1)), "commit 2")
	if s.active.Epoch != 1 {
		t.Fatal("active before the commit")
	}
	s.expect(s.commit(nil), "activate 2 joined: c")
	if s.usable("a") != nil || s.usable("c") != nil || len(s.active.Owned["c"]) == 0 {
		t.Fatal("after the activation")
	}
}

// TestBandwidths: they count when workers differ, but not at the start, so that a coordinator that starts again places as before.
func TestBandwidths(t *testing.T) {
	t.Parallel()
	fast := func(b *transport.Beat, bandwidth int64) *transport.Beat {
		b.ComputedBytes, b.ComputeTime = bandwidth*(leastComputeTime/1e9), leastComputeTime
		return b
	}
	s := newScenario(t)
	s.beat(fast(idle("a", "ia"), 1e9))
	s.beat(fast(idle("b", "ib"), 9e9))
	s.await(2)
	given := func() (all []float64) {
		for _, w := range s.candidates() {
			all = append(all, w.Bandwidth)
		}
		return all
	}
	if d := cmp.Diff([]float64{0, 0}, given()); d != "" {
		t.Fatal(d)
	}
	s = started(t, "a", "b")
	s.beat(fast(ready("a", 1), 10e9))
	s.beat(fast(ready("b", 1), 12e9))
	if d := cmp.Diff([]float64{0, 0}, given()); d != "" {
		t.Fatal(d)
	}
	s.beat(fast(ready("b", 1), 13e9))
	s.beat(idle("c", "ic"))
	if d := cmp.Diff([]float64{10e9, 13e9, 0}, given()); d != "" {
		t.Fatal(d)
	}
	short := fast(ready("a", 1), 1e9)
	short.ComputeTime--
	s.beat(short)
	if d := cmp.Diff([]float64{0, 0, 0}, given()); d != "" {
		t.Fatal(d)
	}
}

// TestJoinTogether: several that come one after the other lead to one plan, but none waits for ever.
func TestJoinTogether(t *testing.T) {
	t.Parallel()
	s := started(t, "a")
	beats := readyAll(1, "a")
	for i := range 4 {
		b := idle(fmt.Sprint("b", i), fmt.Sprint("ib", i))
		s.beat(b)
		beats = append(beats, b)
		s.expect(s.seconds(1, beats...))
	}
	s.expect(s.seconds(1, beats...), "compute 2")
	if n := len(s.pending.workers); n != 5 {
		t.Fatalf("over %d workers", n)
	}
	s = started(t, "a")
	beats = readyAll(1, "a")
	for i := 0; s.pending == nil; i++ {
		if i > gatherTicks {
			t.Fatal("those that come all the time are waited for for ever")
		}
		b := idle(fmt.Sprint("b", i), fmt.Sprint("ib", i))
		s.beat(b)
		beats = append(beats, b)
		s.seconds(1, beats...)
	}
}

// TestLoss: a lost worker's experts move after the grace time, unless it comes back.
func TestLoss(t *testing.T) {
	t.Parallel()
	s := started(t, "a", "b")
	s.expect(s.unreachable("b"), "lost b/ib its connection is gone")
	s.expect(s.seconds(1, ready("a", 1)))
	if s.allCovered() || s.usable("b") == nil {
		t.Fatal("b counts")
	}
	s.expect(s.beat(idle("b", "again")), "address b/again", "log b/again is back (h, node 0, pid 10)", "assign b/again 1")
	s.expect(s.seconds(20, ready("a", 1), serving("b", "again", "me", transport.StateReady, 1)))
	if !s.allCovered() {
		t.Fatal("not covered")
	}

	s.unreachable("b")
	s.expect(s.seconds(1, ready("a", 1)))
	s.expect(s.seconds(1, ready("a", 1)), "compute 2")
	s.expect(s.compute(), "log 2 worker b is lost: its connection is gone", "assign a/ia 2")
	s.expect(s.beat(ready("a", 2, 1)), "commit 2")
	s.expect(s.commit(nil), "activate 2 worker b is lost: its connection is gone")
	if !s.allCovered() {
		t.Fatal("not covered")
	}
	// Now it is one that joins, and as it was lost twice it has to stay for 8 s.
	back := idle("b", "third")
	s.expect(s.beat(back), "address b/third", "log b/third registered (h, node 0, pid 10)")
	s.expect(s.seconds(7, ready("a", 2), back))
	s.expect(s.seconds(1, ready("a", 2), back), "compute 3")
}

// TestBackBeforeReady: the plan without a lost worker is given up when the worker serves again before that plan is ready.
func TestBackBeforeReady(t *testing.T) {
	t.Parallel()
	s := started(t, "a", "b")
	s.unreachable("b")
	s.expect(s.uncovered(), "compute 2") // somebody waits: no grace
	s.expect(s.compute(), "log 2 worker b is lost: its connection is gone", "assign a/ia 2")
	s.expect(s.beat(serving("a", "ia", "me", transport.StateLoading, 2, 1)))
	s.expect(s.beat(idle("b", "again")), "address b/again", "log b/again is back (h, node 0, pid 10)", "assign b/again 1")
	s.expect(s.beat(serving("b", "again", "me", transport.StateReady, 1)), "log 2 given up: all workers of the active one are back")
	s.expect(s.beat(ready("a", 2, 1)))
	s.expect(s.seconds(3, ready("a", 2, 1), serving("b", "again", "me", transport.StateReady, 1)))
	// The next loss has its grace again, and the next plan another epoch.
	s.unreachable("b")
	s.expect(s.seconds(1, ready("a", 2, 1)))
	s.expect(s.seconds(1, ready("a", 2, 1)), "compute 3")
}

// TestDeadProcess: one that is known to have ended is not waited for.
func TestDeadProcess(t *testing.T) {
	t.Parallel()
	s := started(t, "a", "b")
	s.expect(s.fail("b", "exit status 1"), "lost b/ib exit status 1", "compute 2")
	s.expect(s.compute(), "log 2 worker b is lost: exit status 1", "assign a/ia 2")
}

// replicated is a plan over a and b in which both own everything.
func replicated(epoch uint64) *placement.Plan {
	p := &placement.Plan{Epoch: epoch, Owned: map[string]map[int][]uint32{"a": {}, "b": {}}, Owners: map[int][][]string{}}
	for _, layer := range testModel.Layers {
		for item := range testModel.Experts {
			p.Owners[layer] = append(p.Owners[layer], []string{"a", "b"})
			for _, id := range []string{"a", "b"} {
				p.Owned[id][layer] = append(p.Owned[id][layer], uint32(item))
			}
		}
	}
	return p
}

// TestFormerPlan: a former leader's plan is the active one; its workers are taken over and have some time to come, and one whose experts
// all have replicas has more.
func TestFormerPlan(t *testing.T) {
	t.Parallel()
	s := scenario{t, newTable("me", testIdentity, 7, replicated(4), nil)}
	if s.allCovered() || s.usable("a") == nil {
		t.Fatal("nobody was seen yet")
	}
	s.expect(s.await(5)) // it is not for the first plan
	old := serving("a", "ia", "former", transport.StateReady, 4)
	old.Term = 6
	s.expect(s.beat(old), "address a/ia", "log a/ia is back (h, node 0, pid 10)", "assign a/ia 4")
	s.expect(s.beat(ready("a", 4)))
	if !s.allCovered() || s.active.Epoch != 4 {
		t.Fatal("not covered by a")
	}
	s.expect(s.seconds(9, ready("a", 4)))
	s.expect(s.seconds(1, ready("a", 4)), "compute 5")
	s.expect(s.compute(), "log 5 worker b is lost: it has not been seen yet", "assign a/ia 5")
	// It comes after all.
	s.expect(s.beat(idle("b", "ib")), "address b/ib", "log b/ib is back (h, node 0, pid 10)", "assign b/ib 4")
	s.expect(s.beat(ready("b", 4)), "log 5 given up: all workers of the active one are back")
	// With replicas it may be away for longer.
	s.unreachable("b")
	s.expect(s.seconds(29, ready("a", 5, 4)))
	s.expect(s.seconds(1, ready("a", 5, 4)), "compute 6")
}

// TestLostWhilePreparing: the plan is given up when one of its workers is gone for longer than a moment, and made anew.
func TestLostWhilePreparing(t *testing.T) {
	t.Parallel()
	s := started(t, "a", "b")
	s.beat(idle("c", "ic"))
	s.seconds(2, append(readyAll(1, "a", "b"), idle("c", "ic"))...)
	s.compute()
	s.expect(s.beat(ready("a", 2, 1)))
	s.expect(s.beat(ready("b", 2, 1)))
	s.expect(s.unreachable("c"), "lost c/ic its connection is gone")
	s.expect(s.seconds(1, ready("a", 2, 1), ready("b", 2, 1)))
	s.expect(s.seconds(1, ready("a", 2, 1), ready("b", 2, 1)), "log 2 given up: worker c is lost: its connection is gone")
	if s.pending != nil || s.active.Epoch != 1 {
		t.Fatal("there is no reason for another plan")
	}
	// A worker of the active plan is lost while another one is prepared: the next plan is without it.
	s.beat(idle("d", "id"))
	s.seconds(2, ready("a", 2, 1), ready("b", 2, 1), idle("d", "id"))
	s.expect(s.compute(), "log 3 joined: d", "assign a/ia 3", "assign b/ib 3", "assign d/id 3")
	s.unreachable("b")
	s.expect(s.seconds(2, ready("a", 3, 2, 1), serving("d", "id", "me", transport.StateReady, 3)),
		"log 3 given up: worker b is lost: its connection is gone", "compute 4")
	s.expect(s.compute(), "log 4 worker b is lost: its connection is gone", "assign a/ia 4", "assign d/id 4")
}

// TestCommit: a commit that fails is asked for again after a while, said once; a refused plan is replaced; a commit that succeeds counts
// whatever has happened meanwhile.
func TestCommit(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.beat(idle("a", "ia"))
	s.first()
	s.expect(s.beat(ready("a", 1)), "commit 1")
	s.expect(s.commit(errors.New("no quorum")), "log 1 no quorum")
	s.expect(s.seconds(1, ready("a", 1)))
	s.expect(s.seconds(1, ready("a", 1)), "commit 1")
	s.expect(s.commit(errors.New("no quorum")))
	s.expect(s.seconds(2, ready("a", 1)), "commit 1")
	s.expect(s.commit(fmt.Errorf("epoch 3 is committed: %w", ErrPlanRefused)), "log 1 given up: epoch 3 is committed: the placement is refused")
	s.expect(s.seconds(1, ready("a", 1)))
	s.expect(s.seconds(1, ready("a", 1)), "compute 2")
	s.expect(s.compute(), "log 2 the start", "assign a/ia 2")
	s.expect(s.beat(ready("a", 2, 1)), "commit 2")
	s.expect(s.unreachable("a"), "lost a/ia its connection is gone")
	s.expect(s.seconds(5))
	s.expect(s.commit(nil), "activate 2 the start", "compute 3")
}

// TestRebalance: asked for, it comes when no other plan is under way; one that changes nothing is not prepared.
func TestRebalance(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	if _, err := s.askRebalance(); err == nil {
		t.Fatal("rebalanced without a plan")
	}
	s = started(t, "a", "b")
	actions, err := s.askRebalance()
	if err != nil {
		t.Fatal(err)
	}
	s.expect(actions, "compute 2")
	s.expect(s.computed(s.pending, &placement.Plan{Epoch: 2, Owned: s.active.Owned, Owners: s.active.Owners}, nil),
		"log the placement stays as it is (a rebalance was asked for)")
	s.expect(s.seconds(5, readyAll(1, "a", "b")...))
	if s.epoch != 1 {
		t.Fatal("an epoch for nothing")
	}

	s.beat(idle("c", "ic"))
	s.seconds(2, append(readyAll(1, "a", "b"), idle("c", "ic"))...)
	s.compute()
	actions, _ = s.askRebalance()
	s.expect(actions)
	s.beat(ready("a", 2, 1))
	s.beat(ready("b", 2, 1))
	s.expect(s.beat(ready("c", 2)), "commit 2")
	s.expect(s.commit(nil), "activate 2 joined: c", "compute 3")
	s.expect(s.computed(s.pending, nil, errors.New("no room")), "log no new placement (a rebalance was asked for): no room")
	s.expect(s.seconds(5, readyAll(2, "a", "b", "c")...))
}

// TestImpossible: a plan that can't be computed is said once, and tried again when the workers are others.
func TestImpossible(t *testing.T) {
	t.Parallel()
	s := started(t, "a", "b")
	s.unreachable("b")
	s.expect(s.uncovered(), "compute 2")
	s.expect(s.computed(s.pending, nil, errors.New("no room")), "log no new placement (worker b is lost: its connection is gone): no room")
	s.expect(s.uncovered())
	s.expect(s.seconds(30, ready("a", 1)))
	s.expect(s.beat(idle("c", "ic")), "address c/ic", "log c/ic registered (h, node 0, pid 10)", "compute 2")
	s.expect(s.compute(), "log 2 worker b is lost: its connection is gone", "assign a/ia 2", "assign c/ic 2")
}
