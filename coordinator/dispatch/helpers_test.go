package dispatch

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// testDeadline bounds a failing test only.
const testDeadline = 2 * time.Minute

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	t.Cleanup(cancel)
	return ctx
}

// testMembers is a cluster whose plan is set by the test.
type testMembers struct {
	mu       sync.Mutex
	changed  chan struct{}
	plan     *placement.Plan
	lost     map[string]error
	computed map[int][]uint32

	unreachable []string
	uncovered   [][]uint32
}

func (m *testMembers) Plan() *placement.Plan {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.plan
}

func (m *testMembers) Term() uint64 { return 7 }

func (m *testMembers) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed
}

// change changes something that Changed tells.
func (m *testMembers) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

func (m *testMembers) Uncovered(layer int, parts []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uncovered = append(m.uncovered, slices.Clone(parts))
}

func (m *testMembers) Lost(worker string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost[worker]
}

func (m *testMembers) setLost(worker string, err error) {
	m.change(func() { m.lost = map[string]error{worker: err} })
}

func (m *testMembers) Unreachable(worker string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unreachable = append(m.unreachable, worker)
}

func (m *testMembers) Computed(_ string, layer int, r *transport.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.computed == nil {
		m.computed = map[int][]uint32{}
	}
	m.computed[layer] = append(m.computed[layer], r.Parts...)
}

// hasComputed says whether an answer for a layer has been taken.
func (m *testMembers) hasComputed(layer int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.computed[layer]) > 0
}

// fakeWorker computes a function of everything that the work says, as real ones do: for each row the sum over its parts.
type fakeWorker struct {
	id string

	mu          sync.Mutex
	epoch       uint64
	change      workFunc // of the answer; may be nil
	works, rows int
	idle        *transport.Result // if set, what it answers, without computing; its memory is reused
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
	if f.idle != nil {
		return f.nothing(w), nil
	}
	switch {
	case w.Term != 7:
		return nil, &transport.RemoteError{Code: transport.CodeStaleTerm, Message: "term"}
	case w.Epoch != epoch:
		return nil, &transport.RemoteError{Code: transport.CodeWrongEpoch, Message: fmt.Sprintf("work of epoch %d, worker has epoch %d", w.Epoch, epoch)}
	}
	r := &transport.Result{Rows: w.Rows, Hidden: w.Hidden, Sum: make([]int64, w.Rows*w.Hidden), BytesRead: 10, MissBytes: 10, GhostBytes: -1}
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

// nothing is zeros as an answer.
func (f *fakeWorker) nothing(w *transport.Work) *transport.Result {
	r := f.idle
	n := w.Rows * w.Hidden
	if cap(r.Sum) < n {
		r.Sum = make([]int64, n)
	}
	r.Rows, r.Hidden, r.Sum, r.Parts = w.Rows, w.Hidden, r.Sum[:n], r.Parts[:0]
	r.Parts = append(r.Parts, w.Parts[:w.Offsets[1]]...) // all rows choose the same
	r.Hits = append(r.Hits[:0], make([]byte, (len(r.Parts)+7)/8)...)
	return r
}

func (f *fakeWorker) Assign(context.Context, *transport.Assign) error { return nil }
func (f *fakeWorker) Refused(string)                                  {}
func (f *fakeWorker) CoordinatorBeat(*transport.CoordinatorBeat)      {}
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
	o := Options{Requester: b.requester, Members: b.members, Parts: parts, Snapshot: func() engine.Residency { return nil },
		OnMissing: FailMissing, Silence: testDeadline, Log: t.Logf}
	if change != nil {
		change(&o)
	}
	if b.dispatcher, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.dispatcher.Close)
	return b
}

// newLaneBench is newBench with workers that are reached over a lane.
func newLaneBench(t testing.TB, lane string, parts, workers, payload int, change func(*Options)) *bench {
	t.Helper()
	b := newBench(t, parts, workers, payload, change)
	if lane == transport.LaneNATS {
		return b
	}
	for i, r := range b.responders {
		offer, err := r.OfferLane(t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		id := b.workers[i].id
		if err := b.requester.UseLane(testContext(t), id, "i-"+id, offer, nil); err != nil {
			t.Fatal(err)
		}
		if b.requester.Lane(id) != lane {
			t.Fatalf("worker %s is reached over %s", id, b.requester.Lane(id))
		}
	}
	return b
}

// overLanes runs a test over each lane.
func overLanes(t *testing.T, test func(t *testing.T, lane string)) {
	t.Parallel()
	for _, lane := range []string{transport.LaneNATS, transport.LaneLocal} {
		t.Run("lane="+lane, func(t *testing.T) {
			t.Parallel()
			if lane == transport.LaneLocal && runtime.GOOS != "linux" {
				t.Skip("the local lane needs Linux")
			}
			test(t, lane)
		})
	}
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
