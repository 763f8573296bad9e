package membership

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moepool/moepool/coordinator/dispatch"
	"github.com/moepool/moepool/internal/leaks"
	"github.com/moepool/moepool/transport"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

var _ dispatch.Members = (*Members)(nil)

// TestWaitReady: registered, placed, assigned, loaded; what each owns is what it was told; progress is shown.
func TestWaitReady(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	workers := map[string]*fakeWorker{}
	for _, id := range []string{"w0", "w1"} {
		workers[id] = startWorker(t, s, id, "i-"+id, func(w *fakeWorker) { w.hold = id == "w1" })
	}
	c := startCoordinator(t, s, "me")
	states := map[transport.WorkerState]bool{}
	plan, err := c.WaitReady(testContext(t), 2, func(beats []transport.Beat) {
		for _, b := range beats {
			if states[b.State] = true; b.Worker == "w1" && b.State == transport.StateLoading {
				if b.LoadedBytes != 50 || b.TotalBytes != 100 {
					t.Errorf("%+v", b)
				}
				w := workers["w1"]
				w.mu.Lock()
				if w.beat.State == transport.StateLoading {
					w.load()
				}
				w.mu.Unlock()
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !states[transport.StateLoading] || !states[transport.StateReady] {
		t.Fatalf("states seen: %v", states)
	}
	if plan != c.Plan() || plan.Epoch != 1 || c.Term() != 7 || c.Lost("w0") != nil || c.Lost("w1") != nil || c.Lost("w2") == nil {
		t.Fatal("plan, epoch, term or workers are wrong")
	}
	for i, id := range []string{"w0", "w1"} {
		w := workers[id]
		w.mu.Lock()
		want := []*transport.Assign{{Coordinator: "me", Epoch: 1, Term: 7, Identity: testIdentity, Layers: []transport.LayerParts{
			{Layer: 1, Parts: []uint32{uint32(i), uint32(i + 2)}}, {Layer: 3, Parts: []uint32{uint32(i), uint32(i + 2)}}}}}
		if d := cmp.Diff(want, w.assigns); d != "" {
			t.Error(d)
		}
		w.mu.Unlock()
	}
	for _, layer := range testModel.Layers {
		for expert := range int32(4) {
			if !c.Residency().Resident(layer, expert) {
				t.Errorf("layer %d expert %d is not resident", layer, expert)
			}
		}
	}
	beats := c.Workers()
	if len(beats) != 2 || beats[0].Worker != "w0" || beats[1].Worker != "w1" || beats[0].State != transport.StateReady {
		t.Fatalf("%+v", beats)
	}
	// Again: the plan stands.
	if again, err := c.WaitReady(testContext(t), 2, nil); err != nil || again != plan {
		t.Fatal(again, err)
	}
}

// TestRefusedWorker: a mismatch ends the wait, and the worker is told the same, both values named.
func TestRefusedWorker(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := startCoordinator(t, s, "me")
	w := startWorker(t, s, "w0", "i0", func(w *fakeWorker) { w.beat.Identity.Format = "bf16" })
	_, err := c.WaitReady(testContext(t), 1, nil)
	var failed *WorkerError
	if !errors.As(err, &failed) || failed.Worker != "w0" || failed.Reason != "refused: format: coordinator q8, worker w0 bf16" {
		t.Fatal(err)
	}
	waitFor(t, "the worker is told", func() bool { return w.toldRefusal("format: coordinator q8, worker w0 bf16") })
	waitFor(t, "it is said", func() bool { return c.heard("worker w0 is refused: format: coordinator q8, worker w0 bf16") })
}

// TestSecondProcess: the second holder of an id is told so; the first works on.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := startCoordinator(t, s, "me")
	first := startWorker(t, s, "w0", "first", nil)
	if _, err := c.WaitReady(testContext(t), 1, nil); err != nil {
		t.Fatal(err)
	}
	second := startWorker(t, s, "w0", "second", nil)
	waitFor(t, "the second is told", func() bool {
		return second.toldRefusal("the worker id w0 is held by another process (h, pid 10)")
	})
	if first.toldRefusal("the worker id w0 is held by another process (h, pid 10)") || c.Lost("w0") != nil {
		t.Fatal("the first was disturbed")
	}
}

// TestWaitEnds: what a wait says when it ends early.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := startCoordinator(t, s, "me")
	startWorker(t, s, "w0", "i0", nil)
	waitFor(t, "registered", func() bool { return len(c.Workers()) == 1 })

	enough := errors.New("Ctrl-C")
	ctx, cancel := context.WithCancelCause(testContext(t))
	cancel(enough)
	if _, err := c.WaitReady(ctx, 2, nil); !errors.Is(err, enough) || !strings.Contains(err.Error(), "1 of 2 are registered: w0") {
		t.Fatal(err)
	}
	go c.Fail("w1", errors.New("exit status 1"))
	var failed *WorkerError
	if _, err := c.WaitReady(testContext(t), 2, nil); !errors.As(err, &failed) || err.Error() != "worker w1: exit status 1" {
		t.Fatal(err)
	}
	if _, err := c.WaitReady(testContext(t), 0, nil); err == nil {
		t.Fatal("waited for 0 workers")
	}
	startWorker(t, s, "w2", "i2", func(w *fakeWorker) { w.deny = &transport.RemoteError{Code: transport.CodeRefused, Message: "no"} })
	if _, err := c.WaitReady(testContext(t), 2, nil); !errors.As(err, &failed) || failed.Worker != "w2" || !strings.Contains(err.Error(), "refused: no") {
		t.Fatal(err)
	}
}

// TestCapacity: without arenas experts that don't fit are an error before anything is loaded.
func TestCapacity(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := startCoordinatorWith(t, s, "me", func(o *Options) { o.InMemory = true })
	w := startWorker(t, s, "w0", "i0", func(w *fakeWorker) { w.beat.Capacity = 799 })
	if _, err := c.WaitReady(testContext(t), 1, nil); err == nil || !strings.Contains(err.Error(), "needs 800 bytes for its experts and has 799") {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.assigns) != 0 {
		t.Fatal("it was assigned nevertheless")
	}
}

// TestSilentWorker: a worker that stops beating is lost after 3 s, which is told; its experts are in nobody's memory then. Restarted, it
// is assigned again and usable.
func TestSilentWorker(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := startCoordinator(t, s, "me")
	w := startWorker(t, s, "w0", "i0", nil)
	if _, err := c.WaitReady(testContext(t), 1, nil); err != nil {
		t.Fatal(err)
	}
	w.stop()
	waitFor(t, "lost", func() bool { return c.heard("w0: no beat for 3 s") })
	if err := c.Lost("w0"); err == nil || c.Residency().Resident(1, 0) || len(c.Workers()) != 0 {
		t.Fatal(err)
	}
	startWorker(t, s, "w0", "again", nil)
	waitFor(t, "usable", func() bool { return c.Lost("w0") == nil })
	if !c.Residency().Resident(1, 0) || c.Plan().Epoch != 1 {
		t.Fatal("residency or plan after the restart")
	}
}

// TestNextCoordinator: a worker that outlives its coordinator is left alone while it serves that one, and then taken over; it hears
// the living coordinator's beats.
func TestNextCoordinator(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	first := startCoordinator(t, s, "first")
	w := startWorker(t, s, "w0", "i0", nil)
	if _, err := first.WaitReady(testContext(t), 1, nil); err != nil {
		t.Fatal(err)
	}
	if silence := w.responder.CoordinatorSilence(); silence > 5 {
		t.Fatalf("%f s of silence", silence)
	}
	second := startCoordinator(t, s, "second")
	waitFor(t, "seen", func() bool { return second.heard("serves another coordinator (first)") })
	if len(second.Workers()) != 0 || first.Lost("w0") != nil {
		t.Fatal("the worker was taken from its coordinator")
	}
	first.Members.Close()
	w.free()
	if _, err := second.WaitReady(testContext(t), 1, nil); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.beat.Coordinator != "second" {
		t.Fatalf("it serves %s", w.beat.Coordinator)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := startCoordinator(t, s, "me")
	for _, o := range []Options{{}, {Requester: c.requester}, {Requester: c.requester, Instance: "a.b"}} {
		if m, err := New(context.Background(), o); err == nil {
			m.Close()
			t.Errorf("%+v was taken", o)
		}
	}
	c.requester.Close()
}
