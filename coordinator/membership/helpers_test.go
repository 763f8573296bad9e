package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moepool/moepool/transport"
)

const testDeadline = 2 * time.Minute

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	t.Cleanup(cancel)
	return ctx
}

func startServer(t *testing.T) *transport.Server {
	t.Helper()
	s, err := transport.StartServer(transport.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func connect(t *testing.T, s *transport.Server) *transport.Conn {
	t.Helper()
	c, err := transport.Connect(testContext(t), transport.ConnectOptions{URL: s.URL(), Token: s.Token()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// coordinator gives Members on a connection of their own; what they log is collected.
type coordinator struct {
	*Members
	requester *transport.Requester

	mu   sync.Mutex
	said []string
	lost []string
}

func startCoordinator(t *testing.T, s *transport.Server, instance string) *coordinator {
	t.Helper()
	return startCoordinatorWith(t, s, instance, nil)
}

func startCoordinatorWith(t *testing.T, s *transport.Server, instance string, change func(*Options)) *coordinator {
	t.Helper()
	c := &coordinator{}
	var err error
	if c.requester, err = transport.NewRequester(connect(t, s), "c"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.requester.Close)
	o := Options{
		Requester: c.requester, Instance: instance, Identity: testIdentity, Model: testModel, Term: 7,
		Log: func(format string, args ...any) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.said = append(c.said, fmt.Sprintf(format, args...))
		},
		OnLost: func(worker string, reason error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.lost = append(c.lost, worker+": "+reason.Error())
		},
	}
	if change != nil {
		change(&o)
	}
	if c.Members, err = New(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Members.Close)
	return c
}

func (c *coordinator) heard(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(append(slices.Clone(c.said), c.lost...), func(line string) bool { return strings.Contains(line, what) })
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(testDeadline); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, testDeadline)
		}
	}
}

// lastBeat is the note in the last beat of a fakeWorker that was stopped.
const lastBeat = "the last beat"

// stopped stops a worker and waits until no beat of it is under way any more: one that came later would bring it back.
func (c *coordinator) stopped(t *testing.T, w *fakeWorker) {
	t.Helper()
	w.stop()
	waitFor(t, "the last beat", func() bool {
		return slices.ContainsFunc(c.Workers(), func(b transport.Beat) bool {
			return b.Instance == w.beat.Instance && slices.Contains(b.Notes, lastBeat)
		})
	})
}

// fakeWorker beats as a worker does, and loads in an instant unless it is told to hold.
type fakeWorker struct {
	responder *transport.Responder
	stop      func()

	mu      sync.Mutex
	beat    transport.Beat
	assigns []*transport.Assign
	refused []string
	hold    bool // stays loading
	told    uint64
	drained bool
	deny    *transport.RemoteError
	lane    func(*transport.LaneOffer) // not nil: offers a local lane, which this changes on its way into the beats
	work    func(*transport.Work) *transport.Result
}

func startWorker(t *testing.T, s *transport.Server, id, instance string, change func(w *fakeWorker)) *fakeWorker {
	t.Helper()
	w := &fakeWorker{beat: *idle(id, instance)}
	if change != nil {
		change(w)
	}
	var err error
	if w.responder, err = transport.NewResponder(connect(t, s), "c", id, instance, w); err != nil {
		t.Fatal(err)
	}
	if w.lane != nil {
		if w.beat.Lane, err = w.responder.OfferLane(t.Logf); err != nil {
			t.Fatal(err)
		}
		w.lane(&w.beat.Lane)
	}
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			w.mu.Lock()
			b := w.beat
			w.mu.Unlock()
			_ = w.responder.Beat(&b)
			select {
			case <-tick.C:
			case <-end:
				w.mu.Lock()
				b := w.beat
				w.mu.Unlock()
				b.Notes = []string{lastBeat}
				_ = w.responder.Beat(&b)
				return
			}
		}
	})
	w.stop = sync.OnceFunc(func() {
		close(end)
		done.Wait()
		w.responder.Close()
	})
	t.Cleanup(w.stop)
	return w
}

func (w *fakeWorker) Work(_ context.Context, m *transport.Work) (*transport.Result, error) {
	if w.work != nil {
		return w.work(m), nil
	}
	return nil, errors.New("no work expected")
}

func (w *fakeWorker) Assign(_ context.Context, m *transport.Assign) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deny != nil {
		return w.deny
	}
	if w.beat.Coordinator != m.Coordinator || w.beat.Term != m.Term {
		w.beat.Serves = nil
	}
	w.assigns = append(w.assigns, m)
	w.beat.Coordinator, w.beat.Epoch, w.beat.Term, w.beat.TotalBytes = m.Coordinator, m.Epoch, m.Term, 100
	w.beat.State, w.beat.LoadedBytes = transport.StateLoading, 50
	if !w.hold {
		w.load()
	}
	return nil
}

// load finishes loading; everything that is owned is resident.
func (w *fakeWorker) load() {
	w.beat.State, w.beat.LoadedBytes = transport.StateReady, 100
	if !slices.Contains(w.beat.Serves, w.beat.Epoch) {
		w.beat.Serves = append(slices.Clone(w.beat.Serves), w.beat.Epoch)
	}
	w.beat.Resident = nil
	for _, l := range w.assigns[len(w.assigns)-1].Layers {
		bits := make([]byte, 1)
		for _, part := range l.Parts {
			bits[part/8] |= 1 << (part % 8)
		}
		w.beat.Resident = append(w.beat.Resident, transport.LayerBitmap{Layer: l.Layer, Bits: bits})
	}
}

// free is what a worker does when its coordinator has been silent for long.
func (w *fakeWorker) free() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beat.Coordinator, w.beat.Epoch, w.beat.Term, w.beat.State, w.beat.Serves = "", 0, 0, transport.StateIdle, nil
}

// CoordinatorBeat gives back what is not needed any more.
func (w *fakeWorker) CoordinatorBeat(b *transport.CoordinatorBeat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.Instance == w.beat.Coordinator && b.Term == w.beat.Term && w.told != b.Epoch {
		w.told = b.Epoch
		w.beat.Serves = slices.DeleteFunc(slices.Clone(w.beat.Serves), func(epoch uint64) bool { return epoch < b.Epoch })
	}
}

func (w *fakeWorker) Refused(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, reason)
}

// Drain lets the worker go: its beats say so from now on.
func (w *fakeWorker) Drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drained, w.beat.State, w.beat.Serves = true, transport.StateDraining, nil
}

// look gives the present beat, the epoch that is active by the coordinator's beats, and whether the worker was told to leave.
func (w *fakeWorker) look() (beat transport.Beat, active uint64, drained bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.beat, w.told, w.drained
}

func (w *fakeWorker) toldRefusal(reason string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.refused, reason)
}
