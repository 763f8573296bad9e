package transport

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/moepool/moepool/internal/leaks"
	"github.com/moepool/moepool/kernels"
)

func TestMain(m *testing.M) {
	if os.Getenv(echoProcess) != "" {
		runEchoProcess()
		return
	}
	// An object's Put of nats.go v1.55.0 that ends before the goroutine that it began is scheduled takes its channel away, and it waits on nil for
	// ever.
	leaks.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// testDeadline is only for tests that fail.
const testDeadline = 2 * time.Minute

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	t.Cleanup(cancel)
	return ctx
}

func startServer(t testing.TB, o ServerOptions) *Server {
	t.Helper()
	s, err := StartServer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// connect gives a TCP connection, as a worker's, or the in-process one.
func connect(t testing.TB, s *Server, inProcess bool) *Conn {
	t.Helper()
	o := ConnectOptions{URL: s.URL(), Token: s.Token(), Name: t.Name(), Cluster: "c"}
	if inProcess {
		o = ConnectOptions{Server: s, Name: t.Name(), Cluster: "c"}
	}
	c, err := Connect(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newTestRequester(t testing.TB, c *Conn, cluster string) *Requester {
	t.Helper()
	r, err := NewRequester(c, cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func newTestResponder(t testing.TB, c *Conn, cluster, worker, instance string, h Handler) *Responder {
	t.Helper()
	r, err := NewResponder(c, cluster, worker, instance, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	flush(t, c)
	return r
}

func flush(t testing.TB, c *Conn) {
	t.Helper()
	if err := c.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// testHandler calls the functions that are not nil.
type testHandler struct {
	work   func(ctx context.Context, w *Work) (*Result, error)
	assign func(ctx context.Context, m *Assign) error

	mu      sync.Mutex
	refused []string
	drained int
	beats   []CoordinatorBeat
}

func (h *testHandler) Work(ctx context.Context, w *Work) (*Result, error) {
	if h.work == nil {
		return nil, fmt.Errorf("no work expected")
	}
	return h.work(ctx, w)
}

func (h *testHandler) Assign(ctx context.Context, m *Assign) error {
	if h.assign == nil {
		return nil
	}
	return h.assign(ctx, m)
}

func (h *testHandler) CoordinatorBeat(m *CoordinatorBeat) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beats = append(h.beats, *m)
}

func (h *testHandler) Refused(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = append(h.refused, reason)
}

func (h *testHandler) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drained++
}

// testWork is a valid Work whose values depend on request.
func testWork(request uint64, rows, hidden int, quantized bool) *Work {
	w := &Work{Epoch: 1, Term: 2, Layer: 3, Request: request, Attempt: 1, Rows: rows, Hidden: hidden, Quantized: quantized}
	if quantized {
		w.Codes = make([]int8, rows*kernels.PaddedColumns(hidden))
		for i := range w.Codes {
			w.Codes[i] = int8((uint64(i) + request) % 255)
			if w.Codes[i] == -128 {
				w.Codes[i] = 0
			}
		}
		w.Scales = make([]float32, rows*kernels.Groups(hidden))
		for i := range w.Scales {
			w.Scales[i] = float32(i) + float32(request)
		}
	} else {
		w.Values = make([]float32, rows*hidden)
		for i := range w.Values {
			w.Values[i] = float32(i) - float32(request)
		}
	}
	w.Offsets = append(w.Offsets, 0)
	for row := range rows {
		for e := range row%3 + 1 {
			w.Parts = append(w.Parts, uint32(e*2+row))
			w.Weights = append(w.Weights, float32(e)/4)
		}
		w.Offsets = append(w.Offsets, uint32(len(w.Parts)))
	}
	return w
}

// sumOf is what testing workers answer: a function of everything in w, different in each column, wide in every third row.
func sumOf(w *Work) *Result {
	r := &Result{Rows: w.Rows, Hidden: w.Hidden, Sum: make([]int64, w.Rows*w.Hidden), Parts: []uint32{1, 5}, Hits: []byte{2}, BytesRead: 7}
	for row := range w.Rows {
		base := int64(0)
		for i := w.Offsets[row]; i < w.Offsets[row+1]; i++ {
			base += int64(w.Parts[i]+1) * int64(w.Weights[i]*8+1)
		}
		for c := range w.Hidden {
			v := base
			if w.Quantized {
				v += int64(w.Codes[row*kernels.PaddedColumns(w.Hidden)+c])
			} else {
				v += int64(w.Values[row*w.Hidden+c])
			}
			if row%3 == 2 {
				v <<= 33
			}
			r.Sum[row*w.Hidden+c] = -v
		}
	}
	return r
}

// receive waits for a final reply.
func receive(t testing.TB, replies <-chan Reply) Reply {
	t.Helper()
	for {
		if r := receiveAny(t, replies); r.Err != nil || r.Result != nil {
			return r
		}
	}
}

// receiveAny waits for a final reply or progress.
func receiveAny(t testing.TB, replies <-chan Reply) Reply {
	t.Helper()
	select {
	case r := <-replies:
		return r
	case <-time.After(testDeadline):
		t.Fatal("no reply")
		return Reply{}
	}
}

// receiveFrom waits for a final reply in an Exchange.
func receiveFrom(t testing.TB, x *Exchange) Reply {
	t.Helper()
	for {
		r, ok := x.Receive(testContext(t), nil)
		if !ok {
			t.Fatal("no reply")
		}
		if r.Err != nil || r.Result != nil {
			return r
		}
	}
}

// summing is the work of a worker that answers.
func summing(_ context.Context, w *Work) (*Result, error) { return sumOf(w), nil }

// fromHex gives the bytes of a frame: VV stands for the protocol's version, WW for the next one.
func fromHex(t testing.TB, text string) []byte {
	t.Helper()
	text = strings.NewReplacer(" ", "", "VV", fmt.Sprintf("%02x", ProtocolVersion), "WW", fmt.Sprintf("%02x", ProtocolVersion+1)).Replace(text)
	frame, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}
