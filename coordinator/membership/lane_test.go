package membership

import (
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/moepool/moepool/transport"
)

func needLane(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("NOT TESTED: there is no local lane on %s", runtime.GOOS)
	}
}

// squares answers a row's values as sums, too large for 4 bytes in every second column.
func squares(w *transport.Work) *transport.Result {
	r := &transport.Result{Rows: w.Rows, Hidden: w.Hidden, Sum: make([]int64, w.Rows*w.Hidden), Parts: []uint32{1}, Hits: []byte{1}, GhostBytes: -1}
	for i, v := range w.Values {
		r.Sum[i] = int64(v) * int64(v)
		if i%2 == 1 {
			r.Sum[i] -= 1 << 40
		}
	}
	return r
}

// compute sends one row to w0 and gives its sums.
func compute(t *testing.T, c *coordinator) []int64 {
	t.Helper()
	x := c.requester.NewExchange(1)
	w := &transport.Work{Epoch: 1, Term: 7, Layer: 1, Request: x.NextRequest(), Attempt: 1, Rows: 1, Hidden: 5,
		Values: []float32{1, -2, 3, 4e4, -5e4}, Offsets: []uint32{0, 1}, Parts: []uint32{1}, Weights: []float32{1}}
	if err := x.Send("w0", w); err != nil {
		t.Fatal(err)
	}
	for {
		reply, ok := x.Receive(testContext(t), nil)
		switch {
		case !ok || reply.Err != nil:
			t.Fatalf("no answer: %v", reply.Err)
		case reply.Result != nil:
			return reply.Result.Sum
		}
	}
}

// saidTimes counts what was logged.
func (c *coordinator) saidTimes(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, line := range c.said {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}

// TestLaneAgreed: the lane is used before the worker counts as ready, and its sums are those that NATS gives.
func TestLaneAgreed(t *testing.T) {
	t.Parallel()
	needLane(t)
	sums := map[string][]int64{}
	for _, asked := range []bool{false, true} {
		s := startServer(t)
		startWorker(t, s, "w0", "i0", func(w *fakeWorker) { w.lane, w.work = func(*transport.LaneOffer) {}, squares })
		c := startCoordinatorWith(t, s, "me", func(o *Options) { o.Lane = asked })
		if _, err := c.WaitReady(testContext(t), 1, nil); err != nil {
			t.Fatal(err)
		}
		lane := transport.LaneNATS
		if asked {
			lane = transport.LaneLocal
		}
		if got := c.Lane("w0"); got != lane || c.LaneProblem("w0") != "" || c.heard("lane") {
			t.Fatalf("asked for: %t, lane %s, problem %q, said %q", asked, got, c.LaneProblem("w0"), c.said)
		}
		sums[lane] = compute(t, c)
	}
	if !slices.Equal(sums[transport.LaneNATS], sums[transport.LaneLocal]) {
		t.Fatal(sums)
	}
}

// TestLaneRefused: a lane that can't be used leaves the worker on NATS, says why once, and keeps saying it in LaneProblem.
func TestLaneRefused(t *testing.T) {
	t.Parallel()
	needLane(t)
	for why, change := range map[string]func(*transport.LaneOffer){
		"it offers no local lane (--lane local)": nil,
		"it runs on another host":                func(o *transport.LaneOffer) { o.Host = "elsewhere" },
		"refused: the secret is wrong":           func(o *transport.LaneOffer) { o.Secret += "x" },
		"is no lane's address":                   func(o *transport.LaneOffer) { o.Address = "/tmp/elsewhere" },
		"connection refused":                     func(o *transport.LaneOffer) { o.Address += "x" },
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			startWorker(t, s, "w0", "i0", func(w *fakeWorker) { w.lane, w.work = change, squares })
			c := startCoordinatorWith(t, s, "me", func(o *Options) { o.Lane = true })
			if _, err := c.WaitReady(testContext(t), 1, nil); err != nil {
				t.Fatal(err)
			}
			if c.Lane("w0") != transport.LaneNATS || !strings.Contains(c.LaneProblem("w0"), why) || c.saidTimes(why) != 1 {
				t.Fatalf("lane %s, problem %q, said %q", c.Lane("w0"), c.LaneProblem("w0"), c.said)
			}
			if sums := compute(t, c); len(sums) != 5 || sums[4] != 25e8 {
				t.Fatal(sums)
			}
		})
	}
}

// TestLaneBreaks: the lane breaks while a request is under way on it; that one and all later ones are answered over NATS, with the same
// bits, which is said once.
func TestLaneBreaks(t *testing.T) {
	t.Parallel()
	needLane(t)
	s, between := startServer(t), &middleman{}
	startWorker(t, s, "w0", "i0", func(w *fakeWorker) {
		w.lane, w.work = func(o *transport.LaneOffer) { o.Address = between.listen(t, o.Address) }, squares
	})
	c := startCoordinatorWith(t, s, "me", func(o *Options) { o.Lane = true })
	if _, err := c.WaitReady(testContext(t), 1, nil); err != nil {
		t.Fatal(err)
	}
	if c.Lane("w0") != transport.LaneLocal {
		t.Fatal(c.said)
	}
	before := compute(t, c)
	between.breakAtNextAnswer()
	for range 3 {
		if after := compute(t, c); !slices.Equal(before, after) {
			t.Fatal(before, after)
		}
	}
	const why = "the local lane ended"
	if c.Lane("w0") != transport.LaneNATS || !strings.Contains(c.LaneProblem("w0"), why) || c.saidTimes(why) != 1 || c.Lost("w0") != nil {
		t.Fatalf("lane %s, problem %q, said %q", c.Lane("w0"), c.LaneProblem("w0"), c.said)
	}
}

// middleman stands between a coordinator and a worker's lane.
type middleman struct {
	mu     sync.Mutex
	broken bool
}

// listen gives the address at which it stands for a lane's.
func (m *middleman) listen(t *testing.T, address string) string {
	t.Helper()
	own := address + "-between"
	l, err := net.Listen("unix", own)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		done.Wait()
	})
	done.Go(func() {
		near, err := l.Accept()
		if err != nil {
			return
		}
		defer near.Close()
		far, err := net.Dial("unix", address)
		if err != nil {
			t.Error(err)
			return
		}
		done.Go(func() {
			defer far.Close()
			_, _ = io.Copy(far, near) // until either side closes
		})
		for buf := make([]byte, 64<<10); ; {
			n, err := far.Read(buf)
			m.mu.Lock()
			broken := m.broken
			m.mu.Unlock()
			if err != nil || broken {
				return
			}
			if _, err := near.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	return own
}

// breakAtNextAnswer closes the connection when the worker answers next, without that answer.
func (m *middleman) breakAtNextAnswer() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = true
}
