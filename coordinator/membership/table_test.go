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

// serving is the beat of a worker that has an assignment.
func serving(worker, instance, coordinator string, state transport.WorkerState, epoch uint64) *transport.Beat {
	b := idle(worker, instance)
	b.State, b.Coordinator, b.Epoch, b.Term = state, coordinator, epoch, 7
	return b
}

// text is actions in one line each: what a person would write down.
func text(actions []action) string {
	var lines []string
	for _, a := range actions {
		what := map[actionKind]string{actAddress: "address", actRefuse: "refuse", actAssign: "assign", actLost: "lost", actLog: "log"}[a.kind]
		line := fmt.Sprintf("%s %s/%s %s", what, a.worker, a.instance, a.reason)
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// scenario runs a table and compares the actions of each step.
type scenario struct {
	t *testing.T
	*table
}

func newScenario(t *testing.T) scenario {
	return scenario{t, newTable("me", testIdentity, 7)}
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
		out = append(out, s.tick()...)
		for _, b := range beating {
			out = append(out, s.beat(b)...)
		}
	}
	return out
}

func (s scenario) place(workers ...string) []action {
	s.t.Helper()
	var all []placement.Worker
	for _, w := range workers {
		all = append(all, placement.Worker{ID: w})
	}
	epoch := uint64(1)
	if s.plan != nil {
		epoch = s.plan.Epoch + 1
	}
	plan, err := placement.Compute(epoch, testModel, all, placement.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.setPlan(plan)
}

func TestRegisterAssignReady(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.expect(s.beat(idle("w1", "i1")), "address w1/i1", "log w1/i1 registered (h, node 0, pid 10)")
	s.expect(s.beat(idle("w1", "i1")))
	s.expect(s.beat(idle("w0", "i0")), "address w0/i0", "log w0/i0 registered (h, node 0, pid 10)")
	s.expect(s.place("w0", "w1"), "assign w0/i0", "assign w1/i1")
	s.expect(s.beat(idle("w1", "i1"))) // the assignment is under way
	if err := s.usable("w0"); err == nil || err.Error() != "not ready: idle" || s.allReady() {
		t.Fatal(err)
	}
	loading := serving("w0", "i0", "me", transport.StateLoading, 1)
	loading.LoadedBytes, loading.TotalBytes = 3<<20, 8<<20
	s.expect(s.beat(loading))
	if err := s.usable("w0"); err == nil || err.Error() != "not ready: loading, 3 of 8 MiB" {
		t.Fatal(err)
	}
	s.expect(s.beat(serving("w0", "i0", "me", transport.StateReady, 1)))
	s.expect(s.beat(serving("w1", "i1", "me", transport.StateReady, 1)))
	if !s.allReady() || s.usable("w0") != nil || s.usable("w1") != nil || s.usable("w9") == nil {
		t.Fatal("not ready")
	}
}

// TestAssignmentIsRepeated: one that got lost is sent again, but not each second.
func TestAssignmentIsRepeated(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.beat(idle("w0", "i0"))
	s.expect(s.place("w0"), "assign w0/i0")
	s.expect(s.seconds(repeatTicks-1, idle("w0", "i0")))
	s.expect(s.seconds(1, idle("w0", "i0")), "assign w0/i0")
	s.expect(s.seconds(2, serving("w0", "i0", "me", transport.StateReady, 1)))
	// It has missed a newer placement, or forgotten everything.
	s.seconds(repeatTicks, serving("w0", "i0", "me", transport.StateReady, 1))
	s.expect(s.seconds(1, serving("w0", "i0", "me", transport.StateReady, 0)), "assign w0/i0")
	s.seconds(repeatTicks, serving("w0", "i0", "me", transport.StateReady, 1))
	s.expect(s.seconds(1, idle("w0", "i0")), "assign w0/i0")
}

func TestMismatchIsRefused(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	b := idle("w0", "i0")
	b.Identity.Parts = 2
	s.expect(s.beat(b), "refuse w0/i0 parts: coordinator 1, worker w0 2")
	s.expect(s.seconds(repeatTicks-1, b))
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
	s.expect(s.seconds(rivalTicks+2, idle("w0", "second"), idle("w0", "first")),
		"refuse w0/second the worker id w0 is held by another process (h, pid 10)")
	if err := s.takeFailure(false); err != nil {
		t.Fatalf("a second holder ends a wait: %v", err)
	}
	if s.members["w0"].beat.Instance != "first" {
		t.Fatal("the second took over")
	}
}

// TestRestart: a new process takes the place of one that has fallen silent, and is assigned again.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.beat(idle("w0", "first"))
	s.place("w0")
	s.beat(serving("w0", "first", "me", transport.StateReady, 1))
	s.expect(s.beat(idle("w0", "second")))
	s.expect(s.seconds(rivalTicks, idle("w0", "second")))
	s.expect(s.seconds(1, idle("w0", "second")), "lost w0/first another process took its id",
		"address w0/second", "log w0/second is back (h, node 0, pid 10)", "assign w0/second")
	if err := s.usable("w0"); err == nil || err.Error() != "not ready: idle" {
		t.Fatal(err)
	}
	s.expect(s.beat(serving("w0", "second", "me", transport.StateReady, 1)))
	if !s.allReady() {
		t.Fatal("not ready")
	}
}

// TestRestartAfterDrain: one that has said that it leaves is replaced at once.
func TestRestartAfterDrain(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.beat(idle("w0", "first"))
	s.place("w0")
	s.expect(s.beat(serving("w0", "first", "me", transport.StateDraining, 1)), "lost w0/first it is leaving")
	s.expect(s.beat(serving("w0", "first", "me", transport.StateDraining, 1)))
	s.expect(s.beat(idle("w0", "second")), "address w0/second", "log w0/second is back (h, node 0, pid 10)", "assign w0/second")
}

func TestSilence(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.beat(idle("w0", "i0"))
	s.beat(idle("w1", "i1"))
	s.expect(s.seconds(silenceTicks, idle("w0", "i0")))
	s.expect(s.seconds(1, idle("w0", "i0")), "lost w1/i1 no beat for 5 s")
	s.expect(s.seconds(3, idle("w0", "i0")))
	if err := s.usable("w1"); err == nil || err.Error() != "no beat for 5 s" {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"w0"}, s.alive()); d != "" {
		t.Fatal(d)
	}
	// The same process again, after a network that was away.
	s.expect(s.beat(idle("w1", "i1")), "address w1/i1", "log w1/i1 registered (h, node 0, pid 10)")
}

// TestAnotherCoordinator: a worker that outlived its coordinator is left alone until it is free, and one that another coordinator has
// taken is lost.
func TestAnotherCoordinator(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	old := serving("w0", "i0", "old", transport.StateReady, 3)
	s.expect(s.beat(old), "log w0/i0 serves another coordinator (old); it is free some seconds after that one has ended")
	s.expect(s.seconds(10, old))
	if len(s.alive()) != 0 || !strings.Contains(s.status(1), "w0 serves another coordinator") {
		t.Fatalf("%v, %s", s.alive(), s.status(1))
	}
	s.expect(s.beat(idle("w0", "i0")), "address w0/i0", "log w0/i0 registered (h, node 0, pid 10)")
	s.expect(s.place("w0"), "assign w0/i0")
	s.beat(serving("w0", "i0", "me", transport.StateReady, 1))
	s.expect(s.beat(old), "lost w0/i0 serves another coordinator now (old)")
	s.expect(s.beat(old), "log w0/i0 serves another coordinator (old); it is free some seconds after that one has ended")
	s.expect(s.beat(idle("w0", "i0")), "address w0/i0", "log w0/i0 is back (h, node 0, pid 10)", "assign w0/i0")
}

func TestFailedWorker(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.beat(idle("w0", "i0"))
	s.place("w0")
	b := serving("w0", "i0", "me", transport.StateFailed, 1)
	b.Error = "disk full"
	s.expect(s.beat(b), "lost w0/i0 failed: disk full")
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

// TestCandidates: the first n by id; a plan stands while its workers are there.
func TestCandidates(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	for _, w := range []string{"c", "a"} {
		s.beat(idle(w, "i"+w))
	}
	if got := s.candidates(3); got != nil || s.status(3) != "2 of 3 are registered: a, c" {
		t.Fatalf("%v, %s", got, s.status(3))
	}
	s.beat(idle("b", "ib"))
	if d := cmp.Diff([]string{"a", "b"}, s.candidates(2)); d != "" {
		t.Fatal(d)
	}
	s.place("a", "b")
	if got := s.candidates(2); got != nil {
		t.Fatalf("placed again: %v", got)
	}
	if got, want := s.status(2), "a is not ready: idle; b is not ready: idle"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	s.fail("a", "gone")
	if d := cmp.Diff([]string{"b", "c"}, s.candidates(2)); d != "" {
		t.Fatal(d)
	}
	s.expect(s.place("b", "c"), "assign b/ib", "assign c/ic")
}

// A worker whose connection is gone is lost at once; a beat brings it back.
func TestUnreachable(t *testing.T) {
	s := newScenario(t)
	s.beat(idle("w0", "first"))
	s.expect(s.unreachable("w0"), "lost w0/first its connection is gone")
	s.expect(s.unreachable("w0"))
	s.expect(s.beat(idle("w0", "first")), "address w0/first", "log w0/first registered (h, node 0, pid 10)")
}
