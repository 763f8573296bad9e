package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/transport"
)

// drive is a job of one call whose actions a test reads as text.
type drive struct {
	*job
	t *testing.T
}

// newDrive begins a call of one row that chooses all experts; copies owners for each, of some workers.
func newDrive(t *testing.T, workers, copies int, change func(l *limits)) *drive {
	d := &drive{newTestJob(1), t}
	d.delay = func(int32, int) time.Duration { return 100 * time.Millisecond }
	if change != nil {
		change(&d.limits)
	}
	choice := router.Choice{}
	for e := range int32(testExperts) {
		choice.Experts, choice.Weights = append(choice.Experts, e), append(choice.Weights, 1)
	}
	v := testView(t, d.roster, testOwners(t, 1, 1, workers, copies), nil, nil)
	if err := d.start(testCall(true, 4, []router.Choice{choice}), v); err != nil {
		t.Fatal(err)
	}
	return d
}

// expect takes the actions since the last call: "send w0 6" is an attempt of 6 parts, "add w0" its result.
func (d *drive) expect(want ...string) {
	d.t.Helper()
	var got []string
	for _, o := range d.out {
		if o.kind == actUncovered {
			got = append(got, fmt.Sprint("uncovered ", len(d.uncovered)))
			continue
		}
		line := map[actionKind]string{actSend: "send", actAdd: "add", actForget: "forget", actFailed: "failed", actLate: "late"}[o.kind] + " " +
			d.roster.ids[o.attempt.worker]
		if o.kind == actSend {
			line += fmt.Sprint(" ", len(o.attempt.distinct))
		}
		got = append(got, line)
	}
	d.out = d.out[:0]
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Fatal(diff)
	}
}

// of is the last attempt that waits for a worker.
func (d *drive) of(worker string) *attempt {
	d.t.Helper()
	for _, a := range slices.Backward(d.attempts) {
		if a.state == waiting && d.roster.ids[a.worker] == worker {
			return a
		}
	}
	d.t.Fatalf("no attempt waits for %s", worker)
	return nil
}

func (d *drive) answer(workers ...string) {
	d.t.Helper()
	for _, w := range workers {
		if !d.answered(d.of(w), &transport.Result{}) {
			d.t.Fatalf("%s's answer is not taken", w)
		}
	}
}

func (d *drive) lose(workers ...int) {
	d.t.Helper()
	d.look(testView(d.t, d.roster, d.view.owners.plan, workers, nil))
}

func (d *drive) end(want outcome, text ...string) {
	d.t.Helper()
	if d.outcome != want {
		d.t.Fatalf("outcome %d (%v), want %d", d.outcome, d.err, want)
	}
	for _, s := range text {
		if d.err == nil || !strings.Contains(d.err.Error(), s) {
			d.t.Fatalf("%v does not say %q", d.err, s)
		}
	}
}

var noWorker = failure{transport.ErrNoWorker.Error(), transport.ErrNoWorker}

func TestNoListenerIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	d := newDrive(t, 3, 2, nil)
	d.expect("send w0 4", "send w1 4", "send w2 4")
	d.refused(d.of("w1"), noWorker)
	d.expect("failed w1", "send w2 4")
}

// TestHedge: a late share is asked of its other owners; whatever is complete first counts.
func TestHedge(t *testing.T) {
	t.Parallel()
	begin := func() *drive {
		d := newDrive(t, 3, 3, nil)
		d.expect("send w0 4", "send w1 4", "send w2 4")
		d.answer("w0", "w2")
		d.expect("add w0", "add w2")
		d.elapsed(99 * time.Millisecond)
		d.expect()
		d.elapsed(time.Millisecond)
		d.expect("send w2 2", "send w0 2")
		return d
	}
	d := begin() // the hedge is faster, but only when it is complete
	d.answer("w0")
	d.expect()
	d.answer("w2")
	d.expect("add w2", "add w0", "late w1", "forget w1")
	d.end(done)

	d = begin() // the first one is faster
	d.answer("w0", "w1")
	d.expect("add w1", "forget w2", "forget w0")
	d.end(done)

	d = begin() // the first one fails: what the hedge has counts, the rest is waited for, and replaced
	d.answer("w0")
	d.refused(d.of("w1"), noWorker)
	d.expect("failed w1", "add w0")
	d.lose(1, 2)
	d.expect("failed w2", "forget w2", "send w0 2")
	d.answer("w0")
	d.expect("add w0")
	d.end(done)
	if d.stats.Hedges != 1 || d.stats.HedgeWins != 0 || d.stats.Retries != 1 {
		t.Fatalf("%+v", d.stats)
	}

	avoid := func(workers ...int) {
		d.look(testView(t, d.roster, d.view.owners.plan, nil, workers))
	}
	d = newDrive(t, 3, 2, nil) // w2 is to be avoided when w1 is late: it is asked when it is well again
	d.expect("send w0 4", "send w1 4", "send w2 4")
	d.answer("w0", "w2")
	d.expect("add w0", "add w2")
	avoid(2)
	d.elapsed(100 * time.Millisecond)
	d.expect()
	avoid()
	d.elapsed(99 * time.Millisecond)
	d.expect()
	d.elapsed(time.Millisecond)
	d.expect("send w2 4")
	d.answer("w2")
	d.expect("add w2", "late w1", "forget w1")
	d.end(done)

	d = begin() // the hedge fails: the first one is waited for, and not hedged again
	d.answer("w0")
	d.refused(d.of("w2"), noWorker)
	d.expect("failed w2", "forget w0")
	d.elapsed(time.Second)
	d.expect()
	d.answer("w1")
	d.expect("add w1")
	d.end(done)
}

// TestSilence: a silent worker's work goes to others if they can take all of it; else its answer still counts.
func TestSilence(t *testing.T) {
	t.Parallel()
	d := newDrive(t, 2, 1, nil)
	d.expect("send w0 6", "send w1 6")
	d.elapsed(3 * time.Second)
	d.progressed(d.of("w0"))
	d.elapsed(2 * time.Second)
	d.expect("failed w1", "uncovered 6")
	d.answer("w1")
	d.expect("add w1")
	if len(d.uncovered) != 0 || d.stats.Waits != 1 {
		t.Fatalf("%v %+v", d.uncovered, d.stats)
	}
	d.elapsed(4 * time.Second)
	d.expect("failed w0", "uncovered 6")
	d.elapsed(time.Second) // it may be well again: it is asked again
	d.expect("forget w0", "send w0 6")
	d.answer("w0")
	d.expect("add w0")
	d.end(done)
}

// TestLostAndBack: without another owner a lost worker is waited for and asked again when it is back.
func TestLostAndBack(t *testing.T) {
	t.Parallel()
	d := newDrive(t, 2, 1, nil)
	d.expect("send w0 6", "send w1 6")
	d.lose(1)
	d.expect("failed w1", "uncovered 6")
	d.answer("w0")
	d.expect("add w0")
	d.elapsed(29 * time.Second)
	d.expect()
	d.lose()
	d.expect("forget w1", "send w1 6")
	d.answer("w1")
	d.expect("add w1")
	d.end(done)
	if d.stats.Retries != 1 || d.stats.Waits != 1 || d.stats.Waited != 29*time.Second {
		t.Fatalf("%+v", d.stats)
	}
}

// TestPlanMovesParts: what a lost worker owed goes to the owners of the next plan, in pieces as they come.
func TestPlanMovesParts(t *testing.T) {
	t.Parallel()
	d := newDrive(t, 2, 1, nil)
	d.expect("send w0 6", "send w1 6")
	d.refused(d.of("w1"), noWorker)
	d.expect("failed w1", "uncovered 6")
	plan := testOwners(t, 2, 1, 2, 1)
	plan.Owned["w2"] = nil
	for item, owners := range plan.Owners[testLayer] {
		if owners[0] == "w1" && item < 6 {
			plan.Owners[testLayer][item] = []string{"w2"}
		}
	}
	d.look(testView(t, d.roster, plan, []int{1}, nil))
	d.expect("send w2 3", "uncovered 3")
	if a := d.of("w2"); a.work.Epoch != 2 || a.work.Attempt != 2 || d.of("w0").work.Epoch != 1 {
		t.Fatalf("%+v", a.work)
	}
	d.answer("w2", "w0")
	d.lose()
	d.expect("add w2", "add w0", "send w1 3")
	d.answer("w1")
	d.expect("add w1")
	d.end(done)
}

func TestMissingDeadline(t *testing.T) {
	t.Parallel()
	d := newDrive(t, 2, 1, nil)
	d.refused(d.of("w1"), noWorker)
	d.lose(1)
	d.answer("w0")
	d.elapsed(testMissing - time.Millisecond)
	d.end(going)
	d.elapsed(time.Millisecond)
	d.end(failed, "6 of 12 experts of layer 4 have no worker (worker w1: lost), and none came within 30s (--missing-deadline)")
	if !errors.Is(d.err, transport.ErrNoWorker) {
		t.Fatal("the cause is lost")
	}
}

// TestFail: with FailMissing a call ends at once, or when it is known how a worker ended.
func TestFail(t *testing.T) {
	t.Parallel()
	fail := func(l *limits) { l.onMissing = FailMissing }
	d := newDrive(t, 2, 1, fail)
	d.refused(d.of("w1"), failure{"not-ready: loading", &transport.RemoteError{Code: transport.CodeNotReady}})
	d.end(failed, "6 of 12 experts of layer 4 have no worker (worker w1: not-ready: loading)")

	d = newDrive(t, 2, 1, fail)
	d.refused(d.of("w1"), noWorker)
	d.end(going)
	d.lose(1)
	d.end(failed, "worker w1: lost")

	d = newDrive(t, 2, 1, fail)
	d.refused(d.of("w1"), noWorker)
	d.elapsed(goneGrace - time.Millisecond)
	d.refused(d.of("w1"), noWorker) // it was asked again
	d.end(going)
	d.elapsed(time.Millisecond)
	d.end(failed, "worker w1: no worker listens")
}

// TestDrop: with DropMissing a call ends without what nobody holds; what was refused a moment ago may be taken soon.
func TestDrop(t *testing.T) {
	t.Parallel()
	drop := func(l *limits) { l.onMissing = DropMissing }
	d := newDrive(t, 2, 1, drop)
	d.refused(d.of("w1"), failure{"busy", &transport.RemoteError{Code: transport.CodeBusy}})
	d.end(going)
	d.elapsed(firstBar)
	d.refused(d.of("w1"), noWorker)
	d.end(lacks)
	if len(d.uncovered) != 6 {
		t.Fatal(d.uncovered)
	}
	d = newDrive(t, 2, 1, drop) // nothing is dropped because the coordinator has lost its connection, and no worker is to blame
	d.expect("send w0 6", "send w1 6")
	cut := &connectionError{transport.ErrConnectionLost}
	d.refused(d.of("w0"), failure{"lost", cut})
	d.refused(d.of("w1"), failure{"lost", cut})
	d.elapsed(2 * time.Second)
	d.refused(d.of("w0"), failure{"not connected", cut})
	d.end(going)
	d.expect("uncovered 6", "uncovered 6", "send w0 6", "send w1 6", "uncovered 6")
	d.elapsed(2 * time.Second)
	d.answer("w1", "w0")
	d.end(done)
	d = newDrive(t, 2, 1, drop) // without any worker it waits
	d.lose(0, 1)
	d.end(going)
	d.elapsed(testMissing)
	d.end(failed, "12 of 12 experts of layer 4 have no worker (worker w0: lost; worker w1: lost), and none came within 30s")
}

// TestEpochs: work of a plan that has been replaced meanwhile is sent again as work of the new one, to the same worker, too; an old leader
// sends nothing any more.
func TestEpochs(t *testing.T) {
	t.Parallel()
	d := newDrive(t, 2, 1, nil)
	d.look(testView(t, d.roster, testOwners(t, 2, 1, 2, 1), nil, nil))
	d.expect("send w0 6", "send w1 6")
	d.refused(d.of("w0"), failure{"wrong epoch", &transport.RemoteError{Code: transport.CodeWrongEpoch}})
	d.expect("failed w0", "send w0 6")
	if d.of("w0").work.Epoch != 2 {
		t.Fatal("the old epoch")
	}
	d.refused(d.of("w1"), failure{"stale-term: 8", &transport.RemoteError{Code: transport.CodeStaleTerm}})
	d.end(failed, "worker w1: stale-term: 8")
}

func TestTotalNamesTheLongestSilent(t *testing.T) {
	t.Parallel()
	d := newDrive(t, 2, 1, nil)
	for d.outcome == going {
		d.elapsed(time.Second)
		d.progressed(d.of("w1"))
		d.progressed(d.of("w0"))
	}
	d.end(failed, "still computing after 10m0s")
	if d.passed != testTotal {
		t.Fatal(d.passed)
	}
}
