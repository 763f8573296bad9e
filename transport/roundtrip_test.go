package transport

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// echoProcess in the environment makes the test binary a worker process: "url token".
const echoProcess = "MOEPOOL_TEST_ECHO"

const (
	benchHidden  = 2048
	benchRows    = 512 // of a prefill
	echoSubject  = "test.echo"
	benchCluster = "bench"
)

// Bytes that are enough for the messages of benchRows rows.
const (
	largestQuestion = 2 * benchRows * benchHidden
	largestAnswer   = 5 * benchRows * benchHidden
)

// runEchoProcess is a worker whose work is empty, and a bare NATS echo of the same bytes beside it, on a connection of its own.
// It ends with its parent.
func runEchoProcess() {
	must := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	url, token, _ := strings.Cut(os.Getenv(echoProcess), " ")
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	dial := func() *Conn {
		c, err := Connect(ctx, ConnectOptions{URL: url, Token: token})
		must(err)
		return c
	}
	workConn, echoConn := dial(), dial()
	result, large := benchResult(1), benchResult(benchRows)
	r, err := NewResponder(workConn, benchCluster, "w0", "i0", &testHandler{work: func(_ context.Context, w *Work) (*Result, error) {
		if w.Rows == benchRows {
			return large, nil
		}
		return result, nil
	}})
	must(err)
	offer, err := r.OfferLane(func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
	must(err)
	var w wire
	must(encode(&w, kindResult, result))
	answer := slices.Clone(w.buf)
	must(encode(&w, kindResult, large))
	pongAnswers := [2][]byte{withLength(answer), withLength(w.buf)}
	_, err = echoConn.nats.Subscribe(echoSubject, func(m *nats.Msg) { must(echoConn.nats.Publish(m.Reply, answer)) })
	must(err)
	must(workConn.Flush(ctx))
	must(echoConn.Flush(ctx))
	listener, bare, err := listenLane()
	must(err)
	go func() {
		for {
			c, err := listener.Accept()
			must(err)
			go pong(c, pongAnswers)
		}
	}()
	fmt.Println(offer.Host, offer.Address, offer.Secret, bare)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// pong answers every message, which begins with its length, with the same bytes, those of one row or of benchRows: the least that a
// stream socket can cost.
func pong(c net.Conn, answers [2][]byte) {
	buf := make([]byte, largestQuestion)
	for {
		n, err := readMessage(c, buf)
		if err != nil {
			return
		}
		answer := answers[0]
		if n >= benchRows*benchHidden {
			answer = answers[1]
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// readMessage reads what one write of the other side wrote; the first four bytes say how much that is.
func readMessage(c net.Conn, buf []byte) (n int, err error) {
	for need := 4; n < need; {
		got, err := c.Read(buf[n:])
		if err != nil {
			return n, err
		}
		if n += got; n >= 4 {
			need = int(binary.LittleEndian.Uint32(buf))
		}
	}
	return n, nil
}

func benchResult(rows int) *Result {
	r := &Result{Request: 1 << 40, Attempt: 1, Rows: rows, Hidden: benchHidden, Sum: make([]int64, rows*benchHidden), Hits: []byte{255}}
	for i := range 8 {
		r.Parts = append(r.Parts, uint32(i*16))
	}
	return r
}

// withLength puts the length of all of it in front.
func withLength(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(4+len(b))), b...)
}

// startEchoProcess gives the second process's lane and the address of its bare socket; it is ended with the test.
func startEchoProcess(tb testing.TB, s *Server) (offer LaneOffer, bare string) {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), echoProcess+"="+s.URL()+" "+s.Token())
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := child.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		_ = child.Wait()
	})
	if _, err := fmt.Fscan(bufio.NewReader(out), &offer.Host, &offer.Address, &offer.Secret, &bare); err != nil {
		tb.Fatalf("the second process did not say where it listens: %v", err)
	}
	return offer, bare
}

// BenchmarkRoundTrip is the dispatch cost of one layer for one row: activations out (codes, or 8 KiB of float32), sums back (8 KiB), no
// work in between; over NATS and over the lane, beside a bare NATS echo and a bare ping-pong on a unix socket with the same bytes, all
// in turn.
func BenchmarkRoundTrip(b *testing.B) {
	s := startServer(b, ServerOptions{})
	offer, bare := startEchoProcess(b, s)
	for _, quantized := range []bool{true, false} {
		name := "float32"
		if quantized {
			name = "codes"
		}
		b.Run(name, func(b *testing.B) {
			work := testWork(1<<40, 1, benchHidden, quantized)
			work.Parts, work.Weights = benchResult(1).Parts, make([]float32, 8)
			work.Offsets = []uint32{0, 8}
			far := newTestRequester(b, connect(b, s, true), benchCluster)
			near := newTestRequester(b, connect(b, s, true), benchCluster)
			if err := near.UseLane(b.Context(), "w0", "i0", offer, nil); err != nil {
				b.Fatal(err)
			}
			var w wire
			if err := encode(&w, kindWork, &workFrame{work: work}); err != nil {
				b.Fatal(err)
			}
			trips := []trip{
				{"nats", layerTrip(b, far, work)}, {"echo", echoTrip(b, s, slices.Clone(w.buf))},
				{"lane", layerTrip(b, near, work)}, {"socket", socketTrip(b, bare, withLength(w.buf))},
			}
			p50 := inTurn(b, 100, trips)
			b.ReportMetric(p50[0]/p50[1], "nats/echo")
			b.ReportMetric(p50[2]/p50[3], "lane/socket")
		})
	}
}

// BenchmarkPrefillTrip is the same for a prefill of benchRows rows, 1 MiB of codes out and 4 MiB of sums back. A bare NATS message of
// that size is above the usual payload limit, so there is no echo.
func BenchmarkPrefillTrip(b *testing.B) {
	s := startServer(b, ServerOptions{})
	offer, bare := startEchoProcess(b, s)
	work := testWork(1<<40, benchRows, benchHidden, true)
	far := newTestRequester(b, connect(b, s, true), benchCluster)
	near := newTestRequester(b, connect(b, s, true), benchCluster)
	if err := near.UseLane(b.Context(), "w0", "i0", offer, nil); err != nil {
		b.Fatal(err)
	}
	var w wire
	if err := encode(&w, kindWork, &workFrame{work: work}); err != nil {
		b.Fatal(err)
	}
	inTurn(b, 10, []trip{{"nats", layerTrip(b, far, work)}, {"lane", layerTrip(b, near, work)}, {"socket", socketTrip(b, bare, withLength(w.buf))}})
}

type trip struct {
	name string
	run  func()
}

// inTurn measures trips in turn, after some that don't count, reports their percentiles and gives the medians in µs.
func inTurn(b *testing.B, before int, trips []trip) []float64 {
	took := make([][]time.Duration, len(trips))
	for range before {
		for _, t := range trips {
			t.run()
		}
	}
	for b.Loop() {
		for i, t := range trips {
			began := time.Now()
			t.run()
			took[i] = append(took[i], time.Since(began))
		}
	}
	var medians []float64
	for i, t := range trips {
		slices.Sort(took[i])
		at := func(percent int) float64 { return float64(took[i][(len(took[i])-1)*percent/100].Nanoseconds()) / 1e3 }
		for _, percent := range []int{10, 50, 99} {
			b.ReportMetric(at(percent), fmt.Sprintf("%s-p%d-µs", t.name, percent))
		}
		medians = append(medians, at(50))
	}
	return medians
}

// BenchmarkLayer is one lane's round trip alone, for -benchmem: what is allocated on the coordinator's side.
func BenchmarkLayer(b *testing.B) {
	s := startServer(b, ServerOptions{})
	offer, _ := startEchoProcess(b, s)
	for _, name := range []string{LaneNATS, LaneLocal} {
		b.Run("lane="+name, func(b *testing.B) {
			requester := newTestRequester(b, connect(b, s, true), benchCluster)
			if name == LaneLocal {
				if err := requester.UseLane(b.Context(), "w0", "i0", offer, nil); err != nil {
					b.Fatal(err)
				}
			}
			work := testWork(1<<40, 1, benchHidden, true)
			trip := layerTrip(b, requester, work)
			for range 100 {
				trip()
			}
			b.ReportAllocs()
			for b.Loop() {
				trip()
			}
		})
	}
}

func layerTrip(b *testing.B, requester *Requester, work *Work) func() {
	exchange, ctx := requester.NewExchange(1), b.Context()
	return func() {
		work.Request = exchange.NextRequest()
		if err := exchange.Send("w0", work); err != nil {
			b.Fatal(err)
		}
		r, _ := exchange.Receive(ctx, nil)
		for r.Worker != "" && r.Err == nil && r.Result == nil {
			r, _ = exchange.Receive(ctx, nil) // progress: this machine is busy
		}
		if r.Err != nil || r.Result == nil {
			b.Fatalf("%+v", r)
		}
		exchange.Recycle(r.Result)
	}
}

func echoTrip(b *testing.B, s *Server, question []byte) func() {
	c := connect(b, s, true)
	inbox, answers := nats.NewInbox(), make(chan *nats.Msg, 16)
	subscription, err := c.nats.ChanSubscribe(inbox, answers)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = subscription.Unsubscribe() }) // fails only on a closed connection
	return func() {
		if err := c.nats.PublishRequest(echoSubject, inbox, question); err != nil {
			b.Fatal(err)
		}
		if m := <-answers; len(m.Data) < 4*benchHidden {
			b.Fatalf("echo of %d bytes, headers %v", len(m.Data), m.Header)
		}
	}
}

func socketTrip(b *testing.B, address string, question []byte) func() {
	c, err := dialLane(b.Context(), address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	buf := make([]byte, largestAnswer)
	return func() {
		if _, err := c.Write(question); err != nil {
			b.Fatal(err)
		}
		if _, err := readMessage(c, buf); err != nil {
			b.Fatal(err)
		}
	}
}
