package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// overLanes runs a test over each lane.
func overLanes(t *testing.T, test func(t *testing.T, lane string)) {
	t.Parallel()
	for _, lane := range []string{LaneNATS, LaneLocal} {
		t.Run("lane="+lane, func(t *testing.T) {
			t.Parallel()
			if lane == LaneLocal && runtime.GOOS != "linux" {
				t.Skip("the local lane needs Linux")
			}
			test(t, lane)
		})
	}
}

// offerLane makes a worker offer a lane, and gives the function that makes a coordinator use it.
func offerLane(t testing.TB, lane string, r *Responder) (join func(*Requester)) {
	t.Helper()
	if lane == LaneNATS {
		return func(*Requester) {}
	}
	offer, err := r.OfferLane(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	return func(requester *Requester) {
		if err := requester.UseLane(testContext(t), r.worker, r.instance, offer, nil); err != nil {
			t.Fatal(err)
		}
		if requester.Lane(r.worker) != LaneLocal {
			t.Fatal("the lane is not used")
		}
	}
}

// newLaneResponder is worker w0, reached over a lane.
func newLaneResponder(t testing.TB, lane string, requester *Requester, c *Conn, h Handler) *Responder {
	t.Helper()
	r := newTestResponder(t, c, "c", "w0", "i0", h)
	offerLane(t, lane, r)(requester)
	return r
}

// lanePair is a coordinator and a worker that offers a lane.
type lanePair struct {
	requester *Requester
	responder *Responder
	offer     LaneOffer
	lost      chan error
}

func newLanePair(t testing.TB, h Handler) *lanePair {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the local lane needs Linux")
	}
	s := startServer(t, ServerOptions{})
	p := &lanePair{requester: newTestRequester(t, connect(t, s, true), "c"), lost: make(chan error, 4)}
	p.responder = newTestResponder(t, connect(t, s, false), "c", "w0", "i0", h)
	var err error
	if p.offer, err = p.responder.OfferLane(t.Logf); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *lanePair) use(t testing.TB) {
	t.Helper()
	if err := p.requester.UseLane(testContext(t), "w0", "i0", p.offer, func(err error) { p.lost <- err }); err != nil {
		t.Fatal(err)
	}
}

// work sends work and expects its sums.
func (p *lanePair) work(t *testing.T, request uint64, rows int) {
	t.Helper()
	x := p.requester.NewExchange(1)
	w := testWork(request, rows, 300, request%2 == 0)
	if err := x.Send("w0", w); err != nil {
		t.Fatal(err)
	}
	got := receiveFrom(t, x)
	expectSum(t, w, got)
	x.Recycle(got.Result)
}

// TestLaneBreaks: work that is under way when a lane breaks is answered over NATS, once, and so is later work; it is said once.
func TestLaneBreaks(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}, 8), make(chan struct{})
	p := newLanePair(t, &testHandler{work: func(ctx context.Context, w *Work) (*Result, error) {
		if w.Request >= 10 && w.Request < 20 {
			started <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return sumOf(w), nil
	}})
	p.use(t)
	p.work(t, 1, 3)
	x := p.requester.NewExchange(4)
	var works []*Work
	for i := range uint64(3) {
		w := testWork(10+i, 5, 300, true)
		works = append(works, w)
		if err := x.Send("w0", w); err != nil {
			t.Fatal(err)
		}
	}
	<-started
	p.responder.lanes.mu.Lock()
	for l := range p.responder.lanes.open {
		l.conn.Close() // as if it broke
	}
	p.responder.lanes.mu.Unlock()
	close(release)
	for range works {
		got := receiveFrom(t, x)
		expectSum(t, works[got.Request-10], got)
	}
	if err := <-p.lost; err == nil || p.requester.Lane("w0") != LaneNATS {
		t.Fatalf("lost: %v, lane %s", err, p.requester.Lane("w0"))
	}
	p.work(t, 30, 2)
	p.use(t) // the same process: not tried again
	if p.requester.Lane("w0") != LaneNATS || len(p.lost) != 0 {
		t.Fatalf("lane %s, said %d times more", p.requester.Lane("w0"), len(p.lost))
	}
}

// TestLaneRefused: why a lane is not used is an error, and work goes over NATS.
func TestLaneRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why    string
		change func(p *lanePair)
	}{
		{"offers no local lane", func(p *lanePair) { p.offer = LaneOffer{} }},
		{"another host", func(p *lanePair) { p.offer.Host = "elsewhere" }},
		{"secret is wrong", func(p *lanePair) { p.offer.Secret += "x" }},
		{"secret is wrong", func(p *lanePair) { p.offer.Secret = "" }},
		{"no lane's address", func(p *lanePair) { p.offer.Address = "/etc/passwd" }},
		{"refused", func(p *lanePair) { p.offer.Address += "x" }},
		{"meant for worker", func(p *lanePair) { p.responder.instance = "another" }},
		{"above the limit", func(p *lanePair) { p.offer.Secret = strings.Repeat("x", 2*laneHello) }},
	} {
		p := newLanePair(t, &testHandler{work: answerSums})
		instance := p.responder.instance
		c.change(p)
		if err := p.requester.UseLane(testContext(t), "w0", instance, p.offer, nil); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", c.why, err)
		}
		p.responder.instance = instance
		p.work(t, 1, 2)
	}
}

// TestLaneHostile: what can't be decoded ends its own connection only.
func TestLaneHostile(t *testing.T) {
	t.Parallel()
	p := newLanePair(t, &testHandler{work: answerSums})
	p.use(t)
	frame := func(k kind, m message) []byte {
		var w wire
		if err := encodeLane(&w, k, m); err != nil {
			t.Fatal(err)
		}
		return w.buf
	}
	greeting := frame(kindHello, &hello{p.offer.Secret, "w0", "i0", "nowhere"})
	for i, c := range []struct {
		greet bool
		bytes []byte
	}{
		{false, []byte("GET / HTTP/1.1\r\n\r\n")},
		{false, binary.LittleEndian.AppendUint32(nil, laneHello+1)},
		{false, frame(kindWork, &workFrame{work: testWork(1, 1, 8, true)})},
		{false, frame(kindHello, &hello{"guess", "w0", "i0", ""})},
		{true, []byte{0, 0, 0, 0}},
		{true, []byte{255, 255, 255, 255}},
		{true, []byte{1, 0, 0, 0, 0xc1}},
		{true, frame(kindProgress, &progress{})},
		{true, greeting},
		{true, frame(kindPart, &part{count: 1, total: 1, data: []byte{1}})},
	} {
		conn, err := net.Dial("unix", p.offer.Address)
		if err != nil {
			t.Fatal(err)
		}
		sent := c.bytes
		if c.greet {
			sent = append(append([]byte{}, greeting...), c.bytes...)
		}
		if _, err := conn.Write(sent); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(testDeadline))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
			t.Errorf("input %d: the connection was not closed", i)
		}
		conn.Close()
		p.work(t, uint64(100+i), 2)
		if p.requester.Lane("w0") != LaneLocal {
			t.Fatalf("input %d ended another connection", i)
		}
	}
	if p.responder.Malformed() == 0 {
		t.Error("nothing was counted")
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// TestLaneHostileWorker: garbage from a worker ends the lane and is counted; the work goes over NATS.
func TestLaneHostileWorker(t *testing.T) {
	t.Parallel()
	for _, garbage := range [][]byte{{0, 0, 0, 0}, {255, 255, 255, 255}, {1, 0, 0, 0, 0xc1}, []byte("\x04\x00\x00\x00\x93\x02\x02\x90")} {
		var p *lanePair
		p = newLanePair(t, &testHandler{work: func(_ context.Context, w *Work) (*Result, error) {
			p.responder.lanes.mu.Lock()
			defer p.responder.lanes.mu.Unlock()
			for l := range p.responder.lanes.open {
				_ = l.write(garbage) // the work comes a second time, over NATS
			}
			return sumOf(w), nil
		}})
		p.use(t)
		p.work(t, 1, 2)
		if err := <-p.lost; err == nil || p.requester.Malformed() == 0 || p.requester.Lane("w0") != LaneNATS {
			t.Fatalf("%x: lost %v, %d malformed, lane %s", garbage, err, p.requester.Malformed(), p.requester.Lane("w0"))
		}
	}
}

// TestLaneForget: an answer that nobody waits for any more, larger than the socket's buffer, does not stop the lane; neither does the end
// of a context while its answer is awaited.
func TestLaneForget(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var once sync.Once
	p := newLanePair(t, &testHandler{work: func(ctx context.Context, w *Work) (*Result, error) {
		if w.Request == 1 {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return sumOf(w), nil
	}})
	defer once.Do(func() { close(release) })
	p.use(t)
	x := p.requester.NewExchange(1)
	if err := x.Send("w0", testWork(1, 100, 1000, true)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	for {
		r, ok := x.Receive(ctx, nil)
		if !ok {
			break
		}
		if r.Result != nil || r.Err != nil { // else progress, since a second has passed by then
			t.Fatalf("%+v", r)
		}
	}
	x.Forget(1)
	once.Do(func() { close(release) })
	for request := range uint64(5) {
		p.work(t, 2+request, 100)
	}
	if p.requester.Lane("w0") != LaneLocal {
		t.Fatal("the lane is gone")
	}
}

// TestLaneNoAllocation: a layer's round trip allocates nothing on either side.
func TestLaneNoAllocation(t *testing.T) {
	result := benchResult(1)
	p := newLanePair(t, &testHandler{work: func(context.Context, *Work) (*Result, error) { return result, nil }})
	p.use(t)
	x, w, ctx := p.requester.NewExchange(1), testWork(1, 1, benchHidden, true), t.Context()
	trip := func() {
		w.Request = x.NextRequest()
		if err := x.Send("w0", w); err != nil {
			t.Fatal(err)
		}
		r, _ := x.Receive(ctx, nil)
		for r.Result == nil && r.Err == nil && ctx.Err() == nil {
			r, _ = x.Receive(ctx, nil)
		}
		x.Recycle(r.Result)
	}
	for range 10 {
		trip()
	}
	least := 1e9
	for range 5 { // timers and NATS' pings allocate now and then
		least = min(least, testing.AllocsPerRun(100, trip))
	}
	if least > 0 && !underRace {
		t.Errorf("%v allocations for each layer", least)
	}
}

func TestMeasureLanes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the local lane needs Linux")
	}
	times, err := MeasureLanes(t.Context())
	if err != nil || times.NATS <= 0 || times.Local <= 0 {
		t.Fatalf("%+v, %v", times, err)
	}
}

// FuzzLane feeds a stream to a reader: no panic, frames are what the lengths say, and memory follows what came.
func FuzzLane(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0xc1, 2, 0, 0, 0, 1, 2}, uint8(3))
	f.Add([]byte{255, 255, 255, 63, 1, 2, 3}, uint8(1))
	f.Add([]byte{0, 0, 0, 0}, uint8(200))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		near, far, err := socketPair()
		if err != nil {
			t.Skip(err)
		}
		defer near.Close()
		go func() {
			defer far.Close()
			for rest := stream; len(rest) > 0; {
				n := min(len(rest), int(piece)+1)
				if _, err := far.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		l := newLane(near, newReceiver(new(atomic.Uint64)))
		l.limit = MaxMessage
		for want := stream; ; {
			frame, err := l.next()
			if len(l.buf) > 2*len(stream)+2*laneBuffer {
				t.Fatalf("%d bytes taken for a stream of %d", len(l.buf), len(stream))
			}
			if err != nil {
				if len(want) >= laneHead {
					if n := binary.LittleEndian.Uint32(want); n != 0 && n <= MaxMessage && len(want) >= laneHead+int(n) {
						t.Fatalf("%v at a whole frame", err)
					}
				}
				return
			}
			n := int(binary.LittleEndian.Uint32(want))
			if string(frame) != string(want[laneHead:laneHead+n]) {
				t.Fatalf("frame %x, want %x", frame, want[laneHead:laneHead+n])
			}
			want = want[laneHead+n:]
		}
	})
}

// socketPair gives two connected unix sockets.
func socketPair() (near, far *net.UnixConn, err error) {
	listener, address, err := listenLane()
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	if far, err = dialLane(context.Background(), address); err != nil {
		return nil, nil, err
	}
	near, err = listener.AcceptUnix()
	return near, far, err
}

// A coordinator that ends does not wait for the word of a worker that is silent.
func TestLaneHandshakeEnds(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the local lane needs Linux")
	}
	listener, address, err := listenLane()
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	host, err := laneHost()
	if err != nil {
		t.Fatal(err)
	}
	requester := newTestRequester(t, connect(t, startServer(t, ServerOptions{}), true), "c")
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- requester.UseLane(ctx, "w0", "i0", LaneOffer{Host: host, Address: address, Secret: "s"}, nil)
	}()
	conn, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	if err := <-ended; !errors.Is(err, net.ErrClosed) && !errors.Is(err, context.Canceled) { // not that the time for it is over
		t.Error(err)
	}
}
