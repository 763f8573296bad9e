package membership

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moepool/moepool/transport"
)

// TestDrain: a worker that is asked to leave, or says that it wants to, serves until a plan without it is active, and is then told so.
func TestDrain(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{true, false} {
		s := started(t, "a", "b")
		leaving := func(serves ...uint64) *transport.Beat {
			return serving("b", "ib", "me", transport.StateDraining, 1, serves...)
		}
		if asked {
			leaving = func(...uint64) *transport.Beat { return ready("b", 1) }
			actions, err := s.drain("b")
			if err != nil {
				t.Fatal(err)
			}
			s.expect(actions, "log b/ib is asked to leave", "compute 2")
			if actions, err := s.drain("b"); err != nil || len(actions) != 0 {
				t.Fatal(actions, err)
			}
		} else {
			s.expect(s.beat(leaving(1)), "log b/ib wants to leave", "compute 2")
		}
		s.expect(s.compute(), "log 2 worker b leaves", "assign a/ia 2")
		s.expect(s.seconds(3, leaving(1), ready("a", 1)))
		if s.usable("b") != nil || !s.allCovered() {
			t.Fatal("b must serve until its experts have moved")
		}
		s.expect(s.beat(ready("a", 2, 1)), "commit 2")
		s.expect(s.commit(nil), "activate 2 worker b leaves", "drain b/ib")
		if s.usable("b") != nil {
			t.Fatal("work of the plan before may still be in progress")
		}
		s.expect(s.seconds(4, leaving(1), ready("a", 2)))
		s.expect(s.seconds(1, leaving(1), ready("a", 2)), "drain b/ib")
		s.expect(s.beat(serving("b", "ib", "me", transport.StateDraining, 1)), "lost b/ib it is leaving")
		s.expect(s.seconds(9, ready("a", 2)))
		// Started again it is welcome.
		s.expect(s.beat(idle("b", "next")), "address b/next", "log b/next registered (h, node 0, pid 10)")
		if s.members["b"].draining {
			t.Fatal("the next process leaves, too")
		}
	}
}

// TestDrainRefused: who can't leave.
func TestDrainRefused(t *testing.T) {
	t.Parallel()
	s := started(t, "a")
	for worker, want := range map[string]string{
		"x": `there is no worker "x"; there are: a`,
		"a": "worker a can't leave: no other worker can take its experts",
	} {
		if _, err := s.drain(worker); err == nil || err.Error() != want {
			t.Error(err)
		}
	}
	// A spare one leaves at once.
	s.beat(idle("b", "ib"))
	actions, err := s.drain("b")
	if err != nil {
		t.Fatal(err)
	}
	s.expect(actions, "log b/ib is asked to leave", "drain b/ib")
}

// TestDrainMark: a former leader's request to leave holds for the process that is there.
func TestDrainMark(t *testing.T) {
	t.Parallel()
	s := scenario{t, newTable("me", testIdentity, 7, replicated(4), []string{"b", "x"})}
	s.beat(idle("a", "ia"))
	s.expect(s.beat(idle("b", "ib")), "address b/ib", "log b/ib is back (h, node 0, pid 10)", "compute 5", "assign b/ib 4")
	s.expect(s.beat(idle("x", "ix")), "address x/ix", "log x/ix registered (h, node 0, pid 10)", "drain x/ix")
}

// TestDenied: a worker that refuses its assignment takes part in no plan for a minute, then for two; another process of its id at once.
func TestDenied(t *testing.T) {
	t.Parallel()
	s := started(t, "a")
	s.beat(idle("b", "ib"))
	s.seconds(2, ready("a", 1), idle("b", "ib"))
	s.compute()
	s.expect(s.deny("b", "old", s.pending.plan, "does not take it"))
	s.expect(s.deny("b", "ib", s.active, "does not take it"))
	s.expect(s.deny("b", "ib", s.pending.plan, "does not take it"), "log 2 given up: worker b does not take it")
	s.expect(s.seconds(59, ready("a", 2, 1), idle("b", "ib")))
	s.expect(s.seconds(1, ready("a", 2, 1), idle("b", "ib")), "compute 3")
	s.compute()
	s.expect(s.deny("b", "ib", s.pending.plan, "does not take it"), "log 3 given up: worker b does not take it")
	s.expect(s.seconds(119, ready("a", 3, 1), idle("b", "ib")))
	s.unreachable("b")
	s.beat(idle("b", "next"))
	s.expect(s.seconds(4, ready("a", 3, 1), idle("b", "next")), "compute 4")
}

// TestFailedWhileServing: a worker that can't load the next plan goes on serving the active one until a plan without it is there.
func TestFailedWhileServing(t *testing.T) {
	t.Parallel()
	s := started(t, "a", "b")
	s.beat(idle("c", "ic"))
	s.seconds(2, append(readyAll(1, "a", "b"), idle("c", "ic"))...)
	s.compute()
	b := serving("b", "ib", "me", transport.StateFailed, 2, 1)
	b.Error = "disk full"
	s.expect(s.beat(b), "log b/ib failed: disk full", "log 2 given up: worker b failed: disk full", "compute 3")
	if s.usable("b") != nil || !s.allCovered() {
		t.Fatal("b still serves")
	}
	s.expect(s.compute(), "log 3 worker b failed: disk full", "assign a/ia 3", "assign c/ic 3")
	s.beat(ready("a", 3, 2, 1))
	s.expect(s.beat(ready("c", 3)), "commit 3")
	s.expect(s.commit(nil), "activate 3 worker b failed: disk full")
	if d := cmp.Diff([]string{"a", "c"}, s.alive()); d != "" {
		t.Fatal(d)
	}
	// What it lacked may be there later.
	b.Epoch, b.Serves = 2, nil
	s.expect(s.seconds(59, ready("a", 3), ready("c", 3), b))
	s.expect(s.seconds(1, ready("a", 3), ready("c", 3), b), "compute 4")
	s.expect(s.compute(), "log 4 joined: b", "assign a/ia 4", "assign b/ib 4", "assign c/ic 4")
}
