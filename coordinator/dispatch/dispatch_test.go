package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testDeadline = 30 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	t.Cleanup(cancel)
	return ctx
}

// testMembers is a cluster whose plan is set by the test.
type testMembers struct {
	mu       sync.Mutex
	plan     *placement.Plan
	lost     map[string]error
	computed map[int][]uint32
}

func (m *testMembers) Plan() *placement.Plan {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.plan
}

func (m *testMembers) Term() uint64 { return 7 }

func (m *testMembers) Lost(worker string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost[worker]
}

func (m *testMembers) setLost(worker string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = map[string]error{worker: err}
}

func (m *testMembers) Computed(layer int, parts []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.computed == nil {
		m.computed = map[int][]uint32{}
	}
	m.computed[layer] = append(m.computed[layer], parts...)
}

// fakeWorker computes a function of everything that the work says, as real ones do: for each row the sum over its parts.
type fakeWorker struct {
	id string

	mu          sync.Mutex
	epoch       uint64
	change      workFunc // of the answer; may be nil
	works, rows int
}

type workFunc = func(ctx context.Context, w *transport.Work, r *transport.Result) error

func (f *fakeWorker) does(change workFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change = change
}

func (f *fakeWorker) setEpoch(epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch = epoch
}

func (f *fakeWorker) counts() [2]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return [2]int{f.works, f.rows}
}

// contribution of one expert part to one column: any function will do.
func contribution(part uint32, weight, value float32, column int) int64 {
	return int64(part+1)*int64(weight*16)*1000 + int64(value*4)*int64(column%5)
}

func (f *fakeWorker) Work(ctx context.Context, w *transport.Work) (*transport.Result, error) {
	f.mu.Lock()
	f.works++
	f.rows += w.Rows
	epoch, change := f.epoch, f.change
	f.mu.Unlock()
	switch {
	case w.Term != 7:
		return nil, &transport.RemoteError{Code: transport.CodeStaleTerm, Message: "term"}
	case w.Epoch != epoch:
		return nil, &transport.RemoteError{Code: transport.CodeWrongEpoch, Message: fmt.Sprintf("work of epoch %d, worker has epoch %d", w.Epoch, epoch)}
	}
	r := &transport.Result{Rows: w.Rows, Hidden: w.Hidden, Sum: make([]int64, w.Rows*w.Hidden), BytesRead: 10}
	seen := map[uint32]bool{}
	for row := range w.Rows {
		for i := w.Offsets[row]; i < w.Offsets[row+1]; i++ {
			seen[w.Parts[i]] = true
			for c := range w.Hidden {
				value := float32(0)
				if w.Quantized {
					value = float32(w.Codes[row*kernels.PaddedColumns(w.Hidden)+c])
				} else {
					value = w.Values[row*w.Hidden+c]
				}
				r.Sum[row*w.Hidden+c] += contribution(w.Parts[i], w.Weights[i], value, c)
			}
		}
	}
	for part := range uint32(transport.MaxLayerParts) {
		if seen[part] {
			r.Parts = append(r.Parts, part)
		}
		if len(r.Parts) == len(seen) {
			break
		}
	}
	r.Hits = make([]byte, (len(r.Parts)+7)/8)
	r.Hits[0] = 1 // the first one
	if change != nil {
		if err := change(ctx, w, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (f *fakeWorker) Assign(context.Context, *transport.Assign) error { return nil }
func (f *fakeWorker) Refused(string)                                  {}
func (f *fakeWorker) Drain()                                          {}

// expected is what the call's sums must be.
func expected(c *engine.ExpertCall, parts int) []int64 {
	hidden := c.Rows.Columns
	sum := make([]int64, len(c.Sum))
	for row, choice := range c.Choices {
		for i, e := range choice.Experts {
			for part := range parts {
				for col := range hidden {
					value := float32(0)
					if c.Rows.Quantized {
						value = float32(c.Rows.Codes[row*kernels.PaddedColumns(hidden)+col])
					} else {
						value = c.Rows.Values[row*hidden+col]
					}
					sum[row*hidden+col] += contribution(uint32(int(e)*parts+part), choice.Weights[i], value, col)
				}
			}
		}
	}
	return sum
}

// bench is a dispatcher with fake workers over a real embedded NATS server.
type bench struct {
	server     *transport.Server
	requester  *transport.Requester
	members    *testMembers
	dispatcher *Dispatcher
	workers    []*fakeWorker
	responders []*transport.Responder
	conns      []*transport.Conn
}

func newBench(t testing.TB, parts, workers, payload int, change func(*Options)) *bench {
	t.Helper()
	s, err := transport.StartServer(transport.ServerOptions{MaxPayload: payload})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	near, err := transport.Connect(testContext(t), transport.ConnectOptions{Server: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(near.Close)
	b := &bench{server: s, members: &testMembers{plan: testPlan(t, 1, parts, workers)}}
	if b.requester, err = transport.NewRequester(near, "c"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.requester.Close)
	for i := range workers {
		b.addWorker(t, fmt.Sprint("w", i))
	}
	o := Options{Requester: b.requester, Members: b.members, Parts: parts, Snapshot: func() engine.Residency { return nil }}
	if change != nil {
		change(&o)
	}
	if b.dispatcher, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.dispatcher.Close)
	return b
}

func (b *bench) addWorker(t testing.TB, id string) {
	t.Helper()
	far, err := transport.Connect(testContext(t), transport.ConnectOptions{URL: b.server.URL(), Token: b.server.Token()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.Close)
	f := &fakeWorker{id: id, epoch: 1}
	r, err := transport.NewResponder(far, "c", id, "i-"+id, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if err := far.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	b.workers, b.responders, b.conns = append(b.workers, f), append(b.responders, r), append(b.conns, far)
}

// someChoices gives rows that need experts of every worker.
func someChoices(rows int) []router.Choice {
	choices := make([]router.Choice, rows)
	for row := range choices {
		for i := range 3 {
			choices[row].Experts = append(choices[row].Experts, int32((row+i*4)%testExperts))
			choices[row].Weights = append(choices[row].Weights, float32(i+1)/4)
		}
		sortByExpert(&choices[row])
	}
	return choices
}

func sortByExpert(c *router.Choice) {
	for i := range c.Experts {
		for j := i; j > 0 && c.Experts[j] < c.Experts[j-1]; j-- {
			c.Experts[j], c.Experts[j-1] = c.Experts[j-1], c.Experts[j]
			c.Weights[j], c.Weights[j-1] = c.Weights[j-1], c.Weights[j]
		}
	}
}

func expectSums(t testing.TB, c *engine.ExpertCall, parts int) {
	t.Helper()
	want := expected(c, parts)
	for i := range want {
		if c.Sum[i] != want[i] {
			t.Fatalf("row %d column %d: %d, want %d", i/c.Rows.Columns, i%c.Rows.Columns, c.Sum[i], want[i])
		}
	}
}

// TestCompute: the same sums for any number of workers and parts, any payload limit and both kinds of rows, call after call.
func TestCompute(t *testing.T) {
	t.Parallel()
	for _, parts := range []int{1, 2} {
		for _, workers := range []int{1, 2, 5} {
			for _, payload := range []int{0, 64 << 10} {
				t.Run(fmt.Sprintf("parts=%d/workers=%d/payload=%d", parts, workers, payload), func(t *testing.T) {
					t.Parallel()
					b := newBench(t, parts, workers, payload, nil)
					for i, rows := range []int{1, 90, 3} {
						c := testCall(i%2 == 0, 500, someChoices(rows))
						stats, err := b.dispatcher.Compute(testContext(t), c)
						if err != nil {
							t.Fatal(err)
						}
						expectSums(t, c, parts)
						if stats.Hits < 1 || stats.Hits+stats.Misses < parts || stats.BytesRead < 10 {
							t.Fatalf("%+v", stats)
						}
					}
				})
			}
		}
	}
}

// TestNothingToDo: no request to workers, and for rows, that have nothing to do.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 3, 0, nil)
	c := testCall(true, 64, make([]router.Choice, 4))
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	c.Choices[2] = router.Choice{Experts: []int32{1, 4}, Weights: []float32{1, 2}} // both of w1
	stats, err := b.dispatcher.Compute(testContext(t), c)
	if err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, 1)
	if (stats != engine.ExpertStats{Hits: 1, Misses: 1, BytesRead: 10}) {
		t.Fatalf("%+v", stats)
	}
	for i, f := range b.workers {
		want := [2]int{0, 0}
		if i == 1 {
			want = [2]int{1, 1}
		}
		if got := f.counts(); got != want {
			t.Errorf("worker %d got %v works and rows, want %v", i, got, want)
		}
	}
	n := b.dispatcher.Counters()
	if len(n) != 1 || n["w1"].Requests != 1 || n["w1"].Rows != 1 || n["w1"].Hits != 1 || n["w1"].Misses != 1 || n["w1"].BytesRead != 10 || n["w1"].Latency <= 0 {
		t.Fatalf("%+v", n)
	}
	if got := b.members.computed[testLayer]; len(got) != 2 || got[0] != 1 || got[1] != 4 {
		t.Fatalf("computed %v", b.members.computed)
	}
}

// TestRowErrors: a row that a worker can't compute gets a typed error naming layer and worker, the lowest worker's if several say so;
// the others are untouched.
func TestRowErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 2, 0, nil)
	slow := make(chan struct{})
	b.workers[0].does(func(_ context.Context, w *transport.Work, r *transport.Result) error {
		<-slow // the higher worker's answer comes first
		r.RowErrors = make([]uint8, w.Rows)
		r.RowErrors[1] = transport.RowOverflow
		return nil
	})
	b.workers[1].does(func(_ context.Context, w *transport.Work, r *transport.Result) error {
		close(slow)
		r.RowErrors = make([]uint8, w.Rows)
		r.RowErrors[1], r.RowErrors[2] = transport.RowNotFinite, transport.RowNotFinite
		return nil
	})
	choice := router.Choice{Experts: []int32{0, 1}, Weights: []float32{1, 1}}
	c := testCall(true, 32, []router.Choice{choice, choice, choice, choice})
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	if c.RowErr[0] != nil || c.RowErr[3] != nil {
		t.Fatal(c.RowErr)
	}
	if !errors.Is(c.RowErr[1], kernels.ErrOverflow) || c.RowErr[1].Error() != fmt.Sprintf("layer %d, worker w0: %v", testLayer, kernels.ErrOverflow) {
		t.Fatal(c.RowErr[1])
	}
	if !errors.Is(c.RowErr[2], kernels.ErrNotFinite) || !strings.Contains(c.RowErr[2].Error(), "worker w1") {
		t.Fatal(c.RowErr[2])
	}
	want := expected(c, 1)
	for _, row := range []int{0, 3} {
		for col := range 32 {
			if c.Sum[row*32+col] != want[row*32+col] {
				t.Fatalf("row %d was changed", row)
			}
		}
	}
}

// expectWorkerError checks that a call fails because of one worker.
func expectWorkerError(t *testing.T, err error, worker, reason string) *WorkerError {
	t.Helper()
	var w *WorkerError
	if !errors.As(err, &w) || w.Worker != worker || w.Layer != testLayer || !strings.Contains(w.Reason, reason) ||
		!strings.Contains(err.Error(), worker) {
		t.Fatalf("%v; want worker %s: %s", err, worker, reason)
	}
	return w
}

// TestRefused: a worker's typed errors come through.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 2, 0, nil)
	b.workers[1].setEpoch(2)
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
	w := expectWorkerError(t, err, "w1", "wrong-epoch: work of epoch 1, worker has epoch 2")
	var remote *transport.RemoteError
	if !errors.As(w, &remote) || remote.Code != transport.CodeWrongEpoch {
		t.Fatal(w.Err)
	}
	if n := b.dispatcher.Counters()["w1"]; n.Failures != 1 {
		t.Fatalf("%+v", n)
	}
	// The next call, with the right epoch, is not disturbed by what came late.
	b.workers[1].setEpoch(1)
	c := testCall(true, 32, someChoices(5))
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, 1)
}

// TestWrongResult: a result that is not one of the work that was sent is an error, not a wrong sum.
func TestWrongResult(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *transport.Result){
		"fewer rows":  func(r *transport.Result) { r.Rows--; r.Sum = r.Sum[r.Hidden:] },
		"less wide":   func(r *transport.Result) { r.Hidden /= 2; r.Sum = r.Sum[:len(r.Sum)/2] },
		"fewer parts": func(r *transport.Result) { r.Parts, r.Hits = r.Parts[1:], make([]byte, (len(r.Parts)+6)/8) },
		"other parts": func(r *transport.Result) { r.Parts[len(r.Parts)-1]++ },
	} {
		b := newBench(t, 1, 1, 0, nil)
		b.workers[0].does(func(_ context.Context, _ *transport.Work, r *transport.Result) error { change(r); return nil })
		_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
		t.Log(name)
		expectWorkerError(t, err, "w0", "its result is of")
	}
}

// TestGone: a worker whose process is gone is an error at once.
func TestGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 2, 0, nil)
	b.responders[1].Close()
	if err := b.conns[1].Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
	if w := expectWorkerError(t, err, "w1", ""); !errors.Is(w, transport.ErrNoWorker) {
		t.Fatal(w.Err)
	}
}

// TestKilled: a worker whose process ends while it computes is found to be gone before it counts as silent.
func TestKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 1, 0, func(o *Options) { o.Silence = testDeadline })
	b.workers[0].does(func(ctx context.Context, _ *transport.Work, _ *transport.Result) error {
		go b.conns[0].Close()
		<-ctx.Done()
		return nil
	})
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
	if w := expectWorkerError(t, err, "w0", ""); !errors.Is(w, transport.ErrNoWorker) {
		t.Fatal(w.Err)
	}
}

// impostor replaces a worker by a process that answers each message by itself; nil is what a stopped process does: nothing.
func (b *bench) impostor(t *testing.T, i int, answer func(m *nats.Msg)) {
	t.Helper()
	b.responders[i].Close()
	raw, err := nats.Connect(b.server.URL(), nats.Token(b.server.Token()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	_, err = raw.Subscribe("moe.c.work."+b.workers[i].id, func(m *nats.Msg) {
		if answer != nil {
			answer(m)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Flush(); err != nil {
		t.Fatal(err)
	}
}

func shortSilence(o *Options) { o.Silence = 300 * time.Millisecond }

// TestHang: a worker that takes work and is silent is named, whether it says nothing or only what can't be understood.
func TestHang(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(m *nats.Msg){
		"silent":    nil,
		"malformed": func(m *nats.Msg) { _ = m.Respond([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1, 1, 0, shortSilence)
			b.impostor(t, 0, answer)
			_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
			if w := expectWorkerError(t, err, "w0", "no sign of life for 300ms"); w.Err != nil {
				t.Fatal(w.Err)
			}
		})
	}
}

// TestProgress: work that takes longer than the permitted silence is fine as long as the worker says that it goes on.
func TestProgress(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 1, 0, func(o *Options) { o.Silence = 3 * time.Second })
	b.workers[0].does(func(ctx context.Context, _ *transport.Work, _ *transport.Result) error {
		select {
		case <-time.After(3500 * time.Millisecond):
		case <-ctx.Done():
		}
		return nil
	})
	c := testCall(true, 32, someChoices(4))
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, 1)
}

// TestTotal: there is a limit even for work that goes on.
func TestTotal(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 1, 0, func(o *Options) { o.Total = 300 * time.Millisecond })
	b.workers[0].does(func(ctx context.Context, _ *transport.Work, _ *transport.Result) error { <-ctx.Done(); return nil })
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
	expectWorkerError(t, err, "w0", "still computing after 300ms")
}

// TestCancel: the end of ctx ends the call at once, and what comes late disturbs nobody.
func TestCancel(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 1, 0, nil)
	started, release := make(chan struct{}), make(chan struct{})
	b.workers[0].does(func(ctx context.Context, w *transport.Work, _ *transport.Result) error {
		if w.Rows == 4 {
			close(started)
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return nil
	})
	ctx, cancel := context.WithCancelCause(testContext(t))
	stopped := errors.New("Ctrl-C")
	go func() {
		<-started
		cancel(stopped)
	}()
	if _, err := b.dispatcher.Compute(ctx, testCall(true, 32, someChoices(4))); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	if _, err := b.dispatcher.Compute(ctx, testCall(true, 32, someChoices(4))); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	close(release)
	c := testCall(true, 32, someChoices(5))
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, 1)
}

// TestLost: what membership knows ends a call that waits, and one that begins.
func TestLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 2, 0, nil)
	cause := errors.New("no beat for 5 s")
	b.workers[1].does(func(ctx context.Context, _ *transport.Work, _ *transport.Result) error {
		b.members.setLost("w1", cause)
		<-ctx.Done()
		return nil
	})
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
	if w := expectWorkerError(t, err, "w1", cause.Error()); !errors.Is(w, cause) {
		t.Fatal(w.Err)
	}
	_, err = b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(4)))
	expectWorkerError(t, err, "w1", cause.Error())
	// Workers that aren't needed don't matter.
	c := testCall(true, 32, []router.Choice{{Experts: []int32{0}, Weights: []float32{1}}})
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, 1)
}

// TestAnsweredTwice: two processes that hold the same id both answer; the sums are counted once.
func TestAnsweredTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 2, 0, nil)
	b.addWorker(t, "w0")
	for i := range 10 {
		c := testCall(true, 32, someChoices(3+i))
		if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
			t.Fatal(err)
		}
		expectSums(t, c, 1)
	}
}

// TestNewPlacement: a call uses the plan that is there when it begins.
func TestNewPlacement(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 2, 0, nil)
	c := testCall(true, 32, someChoices(6))
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	b.members.mu.Lock()
	b.members.plan = testPlan(t, 9, 1, 1)
	b.members.mu.Unlock()
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(6)))
	expectWorkerError(t, err, "w0", "work of epoch 9")
	b.workers[0].setEpoch(9)
	c = testCall(false, 32, someChoices(6))
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, 1)
	b.members.mu.Lock()
	b.members.plan = nil
	b.members.mu.Unlock()
	if _, err := b.dispatcher.Compute(testContext(t), c); err == nil || !strings.Contains(err.Error(), "not ready") {
		t.Fatal(err)
	}
}

// TestConcurrentCalls: calls from several goroutines are computed one after the other.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, 2, 0, nil)
	var done sync.WaitGroup
	for g := range 4 {
		done.Go(func() {
			for i := range 5 {
				c := testCall(g%2 == 0, 64, someChoices(1+g+i))
				if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
					t.Error(err)
					return
				}
				want := expected(c, 2)
				for j := range want {
					if c.Sum[j] != want[j] {
						t.Errorf("goroutine %d call %d: wrong sums", g, i)
						return
					}
				}
			}
		})
	}
	done.Wait()
}

func TestBadCallsAndOptions(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 1, 0, nil)
	c := testCall(true, 32, someChoices(2))
	c.Sum = c.Sum[1:]
	if _, err := b.dispatcher.Compute(testContext(t), c); err == nil || !strings.Contains(err.Error(), "63 sums") {
		t.Fatal(err)
	}
	snapshot := func() engine.Residency { return nil }
	for i, o := range []Options{
		{}, {Requester: b.requester, Members: b.members, Snapshot: snapshot}, {Requester: b.requester, Members: b.members, Parts: 1},
		{Requester: b.requester, Members: b.members, Snapshot: snapshot, Parts: 1, Silence: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("options %d were taken", i)
		}
	}
}
