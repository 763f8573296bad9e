package membership

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// begin starts workers and waits until they are ready.
func begin(t *testing.T, s *transport.Server, c *coordinator, ids ...string) map[string]*fakeWorker {
	t.Helper()
	workers := map[string]*fakeWorker{}
	for _, id := range ids {
		workers[id] = startWorker(t, s, id, "i-"+id, nil)
	}
	if _, err := c.WaitReady(testContext(t), len(ids), nil); err != nil {
		t.Fatal(err)
	}
	return workers
}

// watch looks at every change of the plan and of what can be used, until stop is called; look is called from one goroutine.
func watch(c *coordinator, look func()) (stop func()) {
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			changed := c.Changed()
			look()
			select {
			case <-changed:
			case <-end:
				return
			}
		}
	})
	return func() {
		close(end)
		done.Wait()
	}
}

// TestJoiningWorker: a worker that comes later gets its part; at every moment all expert parts of the active plan can be computed; the
// workers hear which plan is active.
func TestJoiningWorker(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := startCoordinator(t, s, "me")
	workers := begin(t, s, c, "w0", "w1")
	var epochs []uint64
	stop := watch(c, func() {
		plan := c.Plan()
		if !slices.Contains(epochs, plan.Epoch) {
			epochs = append(epochs, plan.Epoch)
		}
		if !c.Covered() {
			t.Errorf("placement %d is not covered", plan.Epoch)
		}
	})
	workers["w2"] = startWorker(t, s, "w2", "i-w2", nil)
	waitFor(t, "three workers", func() bool { return len(c.Plan().Owned) == 3 })
	for id, w := range workers {
		waitFor(t, id+" hears of it", func() bool {
			b, active, _ := w.look()
			return active == 2 && slices.Equal(b.Serves, []uint64{2})
		})
	}
	stop()
	if d := cmp.Diff([]uint64{1, 2}, epochs); d != "" {
		t.Fatal(d)
	}
	if len(c.Plan().Owned["w2"]) == 0 || c.Lost("w2") != nil {
		t.Fatal("w2 has nothing to do")
	}
	for _, layer := range testModel.Layers {
		for expert := range int32(4) {
			if !c.Residency().Resident(layer, expert) {
				t.Errorf("layer %d expert %d is not resident after the move", layer, expert)
			}
		}
	}
}

// TestDrainedWorker: its experts move, it serves until then, and then it is told to leave.
func TestDrainedWorker(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := startCoordinator(t, s, "me")
	workers := begin(t, s, c, "w0", "w1")
	stop := watch(c, func() {
		if !c.Covered() {
			t.Error("not covered")
		}
	})
	if err := c.Drain("w9"); err == nil || !strings.Contains(err.Error(), "there are: w0, w1") {
		t.Fatal(err)
	}
	if err := c.Drain("w1"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "w1 is told to leave", func() bool { _, _, drained := workers["w1"].look(); return drained })
	if plan := c.Plan(); plan.Epoch != 2 || names(plan, "w1") {
		t.Fatalf("placement %d", plan.Epoch)
	}
	waitFor(t, "w1 has left", func() bool { return c.heard("worker w1 has left (it is leaving)") })
	stop()
	if err := c.Drain("w0"); err == nil || !strings.Contains(err.Error(), "no other worker can take its experts") {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range c.Status().Events {
		if e.Worker == "w1" || e.Epoch == 2 {
			kinds = append(kinds, string(e.Kind))
		}
	}
	if d := cmp.Diff([]string{"joined", "draining", "plan", "active", "drained"}, kinds); d != "" {
		t.Fatal(d)
	}
}

// TestRestartedWorker: a worker that is gone and comes back within the grace time serves the same plan again.
func TestRestartedWorker(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := startCoordinator(t, s, "me")
	workers := begin(t, s, c, "w0", "w1")
	plan := c.Plan()
	c.stopped(t, workers["w1"])
	c.Unreachable("w1")
	if c.Lost("w1") == nil || c.Covered() || c.Lost("w0") != nil {
		t.Fatal("after the end of w1")
	}
	again := startWorker(t, s, "w1", "again", nil)
	waitFor(t, "w1 serves again", func() bool { return c.Covered() })
	if c.Plan() != plan || c.Lost("w1") != nil {
		t.Fatal("the placement has changed")
	}
	again.mu.Lock()
	defer again.mu.Unlock()
	if n := len(again.assigns); n != 1 || again.assigns[0].Epoch != 1 {
		t.Fatalf("%d assignments", n)
	}
}

// TestUncovered: a lost worker's experts move at once when somebody waits for them.
func TestUncovered(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := startCoordinator(t, s, "me")
	workers := begin(t, s, c, "w0", "w1")
	c.stopped(t, workers["w1"])
	c.Unreachable("w1")
	c.Uncovered(1, []uint32{1, 3})
	waitFor(t, "w0 has everything", func() bool { return c.Covered() })
	if plan := c.Plan(); plan.Epoch != 2 || names(plan, "w1") || c.Status().Active.Reason != "worker w1 is lost: its connection is gone" {
		t.Fatalf("%+v", c.Status().Active)
	}
}

// TestNextLeader: a coordinator of a higher term begins with the former leader's plan and takes its workers at once; what they hold stays.
func TestNextLeader(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	former := startCoordinator(t, s, "former")
	workers := begin(t, s, former, "w0", "w1")
	plan := former.Plan()
	next := startCoordinatorWith(t, s, "next", func(o *Options) { o.Term, o.Initial = 8, plan })
	if got, err := next.WaitReady(testContext(t), 5, nil); err != nil || got != plan {
		t.Fatal(got, err)
	}
	for id, w := range workers {
		if b, _, _ := w.look(); b.Coordinator != "next" || b.Term != 8 || !slices.Equal(b.Serves, []uint64{1}) {
			t.Fatalf("%s: %+v", id, b)
		}
		waitFor(t, "the former leader sees it", func() bool { return former.heard(id + ": serves another coordinator now (next)") })
	}
	// It doesn't fit every model.
	if _, err := New(context.Background(), Options{Requester: next.requester, Instance: "x", Identity: testIdentity, Initial: plan,
		Model: placement.Model{Layers: []int{1, 3}, Experts: 5, Parts: 1, PartBytes: []int64{1}}}); err == nil || !strings.Contains(err.Error(), "4 expert parts in layer 1, the model has 5") {
		t.Fatal(err)
	}
}

// TestAskedBeforeActive: a plan is active only after the commit; one that fails is tried again, a refused one is replaced.
func TestAskedBeforeActive(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var mu sync.Mutex
	var asked []uint64
	c := startCoordinatorWith(t, s, "me", func(o *Options) {
		o.Commit = func(_ context.Context, plan *placement.Plan) error {
			mu.Lock()
			defer mu.Unlock()
			switch asked = append(asked, plan.Epoch); len(asked) {
			case 1:
				return errors.New("there is no quorum")
			case 2:
				return ErrPlanRefused
			}
			return nil
		}
	})
	begin(t, s, c, "w0")
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff([]uint64{1, 1, 2}, asked); d != "" || c.Plan().Epoch != 2 {
		t.Fatal(d)
	}
	for _, want := range []string{"placement 1 can't be committed yet: there is no quorum", "placement 1 is given up: the placement is refused"} {
		waitFor(t, want, func() bool { return c.heard(want) })
	}
}

// TestRebalanceByCounts: what was observed, or what is given, decides on replicas.
func TestRebalanceByCounts(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := startCoordinatorWith(t, s, "me", func(o *Options) { o.Placement.Replicas = 2 })
	if err := c.Rebalance(nil); err == nil {
		t.Fatal("rebalanced before there was a plan")
	}
	begin(t, s, c, "w0", "w1")
	for _, layer := range testModel.Layers {
		c.Observe(layer, []uint32{1000, 1, 1, 1})
		c.Observe(layer, []uint32{1000, 1}) // of another model
	}
	if d := cmp.Diff(map[int][]float64{1: {1000, 1, 1, 1}, 3: {1000, 1, 1, 1}}, c.routing.snapshot()); d != "" {
		t.Fatal(d)
	}
	if err := c.Rebalance(nil); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "an answer", func() bool {
		return c.heard("placement 2 is active (a rebalance was asked for)") || c.heard("the placement stays as it is (a rebalance was asked for)")
	})
	if owners := c.Plan().Owners[1][0]; len(owners) != 2 {
		t.Fatalf("the hot expert is held by %v", owners)
	}
	if !c.Covered() {
		t.Fatal("not covered")
	}
}

// TestStatus: what a person is shown.
func TestStatus(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := startCoordinator(t, s, "me")
	odd := startWorker(t, s, "odd", "i-odd", func(w *fakeWorker) { w.beat.Identity.Format = "bf16" })
	waitFor(t, "odd is refused", func() bool {
		return c.heard("worker odd is refused") && odd.toldRefusal("format: coordinator q8, worker odd bf16")
	})
	odd.stop() // or it would be refused again every five seconds
	c.mu.Lock()
	c.said = nil
	c.mu.Unlock()
	if _, err := c.WaitReady(testContext(t), 2, nil); err == nil {
		t.Fatal("a refused worker ends a wait")
	}
	if before := c.Status(); before.Ready || before.Active != nil || before.Waiting != "0 of 2 are registered" || before.Workers == nil {
		t.Fatalf("%+v", before)
	}
	workers := begin(t, s, c, "w0", "w1")
	w := workers["w0"]
	w.mu.Lock()
	w.beat.Queue, w.beat.ComputedBytes, w.beat.ComputeTime = 3, 8e9, 4e9
	w.beat.LayerTimes = []transport.LayerTime{{Layer: 1, Count: 2, Nanoseconds: 9}}
	w.beat.Residency = transport.ResidencyReport{Limit: 300, Eviction: "lru", Resident: 200, GhostBytes: -1, Warm: "all"}
	w.mu.Unlock()
	waitFor(t, "the next beat", func() bool { return c.Status().Workers[0].Queue == 3 })
	got := c.Status()
	if !got.Ready || got.Uncovered != 0 || got.Term != 7 || got.Coordinator != "me" || got.Parts != 8 || got.PartBytes != 800 || got.Pending != nil {
		t.Fatalf("%+v", got)
	}
	if d := cmp.Diff(&PlanStatus{Epoch: 1, Phase: "active", Reason: "the start", Moved: 800, Workers: []string{"w0", "w1"}}, got.Active); d != "" {
		t.Fatal(d)
	}
	want := WorkerStatus{ID: "w0", Host: "h", PID: 10, State: "ready", Usable: true, Epoch: 1, Serves: []uint64{1}, Parts: 4, Primaries: 4, Bytes: 400,
		ResidentParts: 4, LoadedBytes: 100, TotalBytes: 100, Queue: 3, Bandwidth: 2e9, LayerTimes: []transport.LayerTime{{Layer: 1, Count: 2, Nanoseconds: 9}},
		Residency: transport.ResidencyReport{Limit: 300, Eviction: "lru", Resident: 200, GhostBytes: -1, Warm: "all"},
		Lane:      transport.LaneNATS, Quiet: got.Workers[0].Quiet}
	if d := cmp.Diff(want, got.Workers[0], cmpopts.EquateEmpty()); d != "" {
		t.Fatal(d)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Fatal(err)
	}
	workers["w1"].stop()
	c.Fail("w1", errors.New("exit status 1"))
	got = c.Status()
	if d := cmp.Diff(Totals{Placements: 1, Moved: 800, Lost: 1}, got.Totals); d != "" {
		t.Fatal(d)
	}
	if lost := got.Workers[1]; lost.State != StateLost || lost.Usable || lost.Problem != "exit status 1" || got.Ready || got.Uncovered != 4 {
		t.Fatalf("%+v", got)
	}
	var last []string
	for _, e := range got.Events {
		if e.Time.IsZero() {
			t.Errorf("no time: %+v", e)
		}
		if e.Kind == EventLost || e.Kind == EventRefused {
			last = append(last, e.Worker+" "+e.Text)
		}
	}
	if d := cmp.Diff([]string{"odd format: coordinator q8, worker odd bf16", "w1 exit status 1"}, last); d != "" {
		t.Fatal(d)
	}
}
