package membership

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

var (
	testIdentity = transport.Identity{Protocol: 1, Build: "v1", ModelDigest: "d", Format: "q8", Parts: 1, Layout: 1}
	testModel    = placement.Model{Layers: []int{1, 3}, Experts: 4, Parts: 1, PartBytes: []int64{100}}
)

// idle is the beat of a worker without an assignment.
func idle(worker, instance string) *transport.Beat {
	return &transport.Beat{Worker: worker, Instance: instance, Host: "h", PID: 10, Identity: testIdentity, State: transport.StateIdle}
}

// serving is the beat of a worker that has an assignment; ready, it serves that epoch and those before it that are named.
func serving(worker, instance, coordinator string, state transport.WorkerState, epoch uint64, before ...uint64) *transport.Beat {
	b := idle(worker, instance)
	b.State, b.Coordinator, b.Epoch, b.Term, b.Serves = state, coordinator, epoch, 7, before
	if state == transport.StateReady {
		b.Serves = append(b.Serves, epoch)
	}
	return b
}

func ready(worker string, epoch uint64, before ...uint64) *transport.Beat {
	return serving(worker, "i"+worker, "me", transport.StateReady, epoch, before...)
}

// text is actions in one line each: what a person would write down.
func text(actions []action) string {
	var lines []string
	for _, a := range actions {
		what := map[actionKind]string{actAddress: "address", actRefuse: "refuse", actAssign: "assign", actLost: "lost", actLog: "log", actDrain: "drain",
			actCompute: "compute", actCommit: "commit", actActivate: "activate"}[a.kind]
		line := what
		if a.worker != "" {
			line += " " + a.worker + "/" + a.instance
		}
		switch {
		case a.plan != nil:
			line += fmt.Sprint(" ", a.plan.Epoch)
		case a.pending != nil:
			line += fmt.Sprint(" ", a.pending.epoch)
		}
		if a.event == EventGivenUp {
			line += " given up:"
		}
		lines = append(lines, strings.TrimSpace(line+" "+a.reason))
	}
	return strings.Join(lines, "\n")
}

// scenario runs a table and compares the actions of each step.
type scenario struct {
	t *testing.T
	*table
}

func newScenario(t *testing.T) scenario {
	return scenario{t, newTable("me", testIdentity, 7, nil, nil)}
}

func (s scenario) expect(actions []action, want ...string) {
	s.t.Helper()
	if d := cmp.Diff(strings.Join(want, "\n"), text(actions)); d != "" {
		s.t.Fatal(d)
	}
}

// seconds passes time in which the given workers go on beating.
func (s scenario) seconds(n int, beating ...*transport.Beat) (out []action) {
	for range n {
		for range ticksPerSecond {
			out = append(out, s.tick()...)
		}
		for _, b := range beating {
			out = append(out, s.beat(b)...)
		}
	}
	return out
}

// compute computes the plan that is asked for.
func (s scenario) compute() []action {
	s.t.Helper()
	if s.pending == nil || s.pending.phase != computing {
		s.t.Fatal("no plan is asked for")
	}
	p := s.pending
	plan, err := placement.Compute(p.epoch, testModel, p.workers, placement.Options{Previous: p.before})
	return s.computed(p, plan, err)
}

// commit answers the question for a commit.
func (s scenario) commit(err error) []action {
	s.t.Helper()
	if s.pending == nil || s.pending.phase != committing {
		s.t.Fatal("nothing is to be committed")
	}
	return s.committed(s.pending, err)
}

// first makes the first plan over workers that have registered: all of them.
func (s scenario) first() []action {
	s.t.Helper()
	s.expect(s.await(len(s.members)), fmt.Sprint("compute ", s.epoch+1))
	out := s.compute()
	return out[1:] // without the line that it is prepared
}

// started is a scenario with an active plan of epoch 1 over workers.
func started(t *testing.T, workers ...string) scenario {
	t.Helper()
	s := newScenario(t)
	for _, w := range workers {
		s.beat(idle(w, "i"+w))
	}
	s.first()
	for _, w := range workers {
		s.beat(ready(w, 1))
	}
	s.expect(s.commit(nil), "activate 1 the start")
	return s
}

func readyAll(epoch uint64, workers ...string) (beats []*transport.Beat) {
	for _, w := range workers {
		beats = append(beats, ready(w, epoch))
	}
	return beats
}

func TestRegisterAssignReady(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.expect(s.beat(idle("w1", "i1")), "address w1/i1", "log w1/i1 registered (h, node 0, pid 10)")
	s.expect(s.beat(idle("w1", "i1")))
	s.expect(s.beat(idle("w0", "i0")), "address w0/i0", "log w0/i0 registered (h, node 0, pid 10)")
	s.expect(s.await(2), "compute 1")
	s.expect(s.compute(), "log 1 the start", "assign w0/i0 1", "assign w1/i1 1")
	s.expect(s.beat(idle("w1", "i1"))) // the assignment is under way
	if err := s.usable("w0"); err == nil || err.Error() != "not ready: idle" || s.allCovered() {
		t.Fatal(err)
	}
	loading := serving("w0", "i0", "me", transport.StateLoading, 1)
	loading.LoadedBytes, loading.TotalBytes = 3<<20, 8<<20
	s.expect(s.beat(loading))
	if err := s.usable("w0"); err == nil || err.Error() != "not ready: loading, 3.0 MiB of 8.0 MiB" {
		t.Fatal(err)
	}
	if got, want := s.status(2), "w0: not ready: loading, 3.0 MiB of 8.0 MiB; w1: not ready: idle"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	s.expect(s.beat(serving("w0", "i0", "me", transport.StateReady, 1)))
	if s.active != nil || s.usable("w0") == nil {
		t.Fatal("active though one worker is missing")
	}
	s.expect(s.beat(serving("w1", "i1", "me", transport.StateReady, 1)), "commit 1")
	s.expect(s.commit(nil), "activate 1 the start")
	if !s.allCovered() || s.usable("w0") != nil || s.usable("w1") != nil || s.usable("w9") == nil {
		t.Fatal("not ready")
	}
}

// TestAssignmentIsRepeated: one that got lost is sent again, but not each second.
func TestAssignmentIsRepeated(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.beat(idle("w0", "i0"))
	s.expect(s.first(), "assign w0/i0 1")
	s.expect(s.seconds(4, idle("w0", "i0")))
	s.expect(s.seconds(1, idle("w0", "i0")), "assign w0/i0 1")
	s.expect(s.seconds(1, serving("w0", "i0", "me", transport.StateReady, 1)), "commit 1")
	s.expect(s.commit(nil), "activate 1 the start")
	// It has forgotten everything.
	s.seconds(5, serving("w0", "i0", "me", transport.StateReady, 1))
	s.expect(s.seconds(1, idle("w0", "i0")), "assign w0/i0 1")
}

func TestMismatchIsRefused(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	b := idle("w0", "i0")
	b.Identity.Parts = 2
	s.expect(s.beat(b), "refuse w0/i0 parts: coordinator 1, worker w0 2")
	s.expect(s.seconds(4, b))
	if err := s.takeFailure(false); err == nil || err.Error() != "worker w0: refused: parts: coordinator 1, worker w0 2" {
		t.Fatal(err)
	}
	if err := s.takeFailure(false); err != nil {
		t.Fatal("a failure ends two waits")
	}
	s.expect(s.seconds(1, b), "refuse w0/i0 parts: coordinator 1, worker w0 2")
	if len(s.members) != 0 || len(s.alive()) != 0 {
		t.Fatal("the worker was admitted")
	}
	// The transport shows a worker of another protocol version by its id and version only.
	s.expect(s.beat(&transport.Beat{Worker: "w5", Identity: transport.Identity{Protocol: 9}}),
		"refuse w5/ protocol: coordinator 1 (build v1), worker w5 9")
	// Such a beat, or noise that looks like it, can't have the living holder of an id refused.
	s.expect(s.beat(idle("w6", "i6")), "address w6/i6", "log w6/i6 registered (h, node 0, pid 10)")
	s.expect(s.beat(&transport.Beat{Worker: "w6", Identity: transport.Identity{Protocol: 9}}))
	// Restarted with the right options it is welcome, and the failure is forgotten.
	s.expect(s.beat(idle("w0", "i2")), "address w0/i2", "log w0/i2 registered (h, node 0, pid 10)")
	if s.failures["w0"] != "" {
		t.Fatal(s.failures)
	}
}

// TestSecondHolder: of two processes with one id the one that was first stays as long as it beats.
func TestSecondHolder(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.beat(idle("w0", "first"))
	s.expect(s.beat(idle("w0", "second")))
	s.expect(s.beat(idle("w0", "first")), "refuse w0/second the worker id w0 is held by another process (h, pid 10)")
	s.expect(s.seconds(4, idle("w0", "second"), idle("w0", "first")))
	if err := s.takeFailure(false); err != nil {
		t.Fatalf("a second holder ends a wait: %v", err)
	}
	if s.members["w0"].beat.Instance != "first" {
		t.Fatal("the second took over")
	}
}

// TestRestart: a new process takes the place of one that has fallen silent, and is assigned the same again.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := started(t, "w0")
	s.expect(s.beat(idle("w0", "second")))
	s.expect(s.seconds(1, idle("w0", "second")))
	for range rivalTicks - ticksPerSecond {
		s.expect(s.tick())
	}
	s.expect(s.tick(), "lost w0/iw0 another process took its id",
		"address w0/second", "log w0/second is back (h, node 0, pid 10)", "assign w0/second 1")
	if err := s.usable("w0"); err == nil || err.Error() != "not ready: idle" || s.allCovered() {
		t.Fatal(err)
	}
	s.expect(s.beat(serving("w0", "second", "me", transport.StateReady, 1)))
	if !s.allCovered() || s.epoch != 1 {
		t.Fatal("not ready")
	}
}

// TestRestartAfterEnd: the place of one that has said that it ends is free at once.
func TestRestartAfterEnd(t *testing.T) {
	t.Parallel()
	s := started(t, "w0")
	s.expect(s.beat(serving("w0", "iw0", "me", transport.StateDraining, 1)), "lost w0/iw0 it is leaving")
	s.expect(s.beat(serving("w0", "iw0", "me", transport.StateDraining, 1)))
	s.expect(s.beat(idle("w0", "second")), "address w0/second", "log w0/second is back (h, node 0, pid 10)", "assign w0/second 1")
}

func TestSilence(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.beat(idle("w0", "i0"))
	s.beat(idle("w1", "i1"))
	s.expect(s.seconds(3, idle("w0", "i0")))
	s.expect(s.seconds(1, idle("w0", "i0")), "lost w1/i1 no beat for 3 s")
	s.expect(s.seconds(3, idle("w0", "i0")))
	if err := s.usable("w1"); err == nil || err.Error() != "no beat for 3 s" {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"w0"}, s.alive()); d != "" {
		t.Fatal(d)
	}
	// The same process again, after a network that was away.
	s.expect(s.beat(idle("w1", "i1")), "address w1/i1", "log w1/i1 registered (h, node 0, pid 10)")
	// Those that no plan names are forgotten after a while.
	s.seconds(4+600, idle("w0", "i0"))
	if len(s.members) != 1 {
		t.Fatalf("%d members", len(s.members))
	}
}

// TestAnotherCoordinator: a worker that outlived its coordinator is left alone until it is free, and one that another coordinator has
// taken is lost.
func TestAnotherCoordinator(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	old := serving("w0", "iw0", "old", transport.StateReady, 3)
	s.expect(s.beat(old), "log w0/iw0 serves another coordinator (old); it is free some seconds after that one has ended")
	s.expect(s.seconds(10, old))
	if len(s.alive()) != 0 || !strings.Contains(s.status(1), "w0 serves another coordinator") {
		t.Fatalf("%v, %s", s.alive(), s.status(1))
	}
	s.expect(s.beat(idle("w0", "iw0")), "address w0/iw0", "log w0/iw0 registered (h, node 0, pid 10)")
	s.expect(s.first(), "assign w0/iw0 1")
	s.expect(s.beat(ready("w0", 1)), "commit 1")
	s.expect(s.commit(nil), "activate 1 the start")
	s.expect(s.beat(old), "lost w0/iw0 serves another coordinator now (old)")
	s.expect(s.beat(old), "log w0/iw0 serves another coordinator (old); it is free some seconds after that one has ended")
	s.expect(s.beat(idle("w0", "iw0")), "address w0/iw0", "log w0/iw0 is back (h, node 0, pid 10)", "assign w0/iw0 1")
}

// TestLowerTerm: a worker of a coordinator of a lower term is taken from it.
func TestLowerTerm(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	old := serving("w0", "iw0", "old", transport.StateReady, 3)
	old.Term = 6
	s.expect(s.beat(old), "address w0/iw0", "log w0/iw0 registered (h, node 0, pid 10)")
	s.expect(s.first(), "assign w0/iw0 1")
	s.expect(s.beat(old)) // the assignment is under way
	if s.complete(s.pending.plan) {
		t.Fatal("what it serves for another coordinator counts")
	}
	s.expect(s.beat(ready("w0", 1)), "commit 1")
}

func TestFailedWorker(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.beat(idle("w0", "i0"))
	s.first()
	b := serving("w0", "i0", "me", transport.StateFailed, 1)
	b.Error = "disk full"
	s.expect(s.beat(b), "lost w0/i0 failed: disk full", "log 1 given up: worker w0 failed: disk full")
	s.expect(s.beat(b))
	if err := s.takeFailure(false); err == nil || err.Error() != "worker w0: failed: disk full" {
		t.Fatal(err)
	}
	if err := s.usable("w0"); err == nil || err.Error() != "failed: disk full" || len(s.alive()) != 0 {
		t.Fatal(err)
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.expect(s.fail("w1", "exit status 2"))
	if err := s.takeFailure(false); err == nil || err.Error() != "worker w1: exit status 2" {
		t.Fatal(err)
	}
	s.beat(idle("w0", "i0"))
	s.expect(s.fail("w0", "killed"), "lost w0/i0 killed")
	s.expect(s.beat(idle("w0", "i0"))) // late
	if err := s.usable("w0"); err == nil || err.Error() != "killed" {
		t.Fatal(err)
	}
}

// TestEnough: the first plan waits for a number of workers, and then takes all that are there.
func TestEnough(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	for _, w := range []string{"c", "a"} {
		s.beat(idle(w, "i"+w))
	}
	if s.expect(s.await(3)); s.status(3) != "2 of 3 are registered: a, c" {
		t.Fatal(s.status(3))
	}
	s.expect(s.beat(idle("b", "ib")), "address b/ib", "log b/ib registered (h, node 0, pid 10)", "compute 1")
	s.expect(s.beat(idle("d", "id")), "address d/id", "log d/id registered (h, node 0, pid 10)") // too late for this one
	s.expect(s.compute(), "log 1 the start", "assign a/ia 1", "assign b/ib 1", "assign c/ic 1")
	if got, want := s.status(3), "a: not ready: idle; b: not ready: idle; c: not ready: idle"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	// Without one of them it can't become active; there are enough others.
	s.expect(s.fail("a", "gone"), "lost a/ia gone", "log 1 given up: worker a is lost: gone", "compute 2")
	s.expect(s.compute(), "log 2 the start", "assign b/ib 2", "assign c/ic 2", "assign d/id 2")
}

// A worker whose connection is gone is lost at once; a beat brings it back.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.beat(idle("w0", "first"))
	s.expect(s.unreachable("w0"), "lost w0/first its connection is gone")
	s.expect(s.unreachable("w0"))
	s.expect(s.beat(idle("w0", "first")), "address w0/first", "log w0/first registered (h, node 0, pid 10)")
	// A process that waits for its id takes it.
	s.expect(s.beat(idle("w0", "second")))
	s.expect(s.unreachable("w0"), "lost w0/first its connection is gone", "address w0/second", "log w0/second registered (h, node 0, pid 10)")
}
