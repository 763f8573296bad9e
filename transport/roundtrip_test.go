package transport

import (
	"bufio"
	"context"
	"fmt"
	"io"
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
	echoSubject  = "test.echo"
	benchCluster = "bench"
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
	result := benchResult()
	_, err := NewResponder(workConn, benchCluster, "w0", "i0", &testHandler{work: func(context.Context, *Work) (*Result, error) { return result, nil }})
	must(err)
	var w wire
	must(encode(&w, kindResult, result))
	answer := slices.Clone(w.buf)
	_, err = echoConn.nats.Subscribe(echoSubject, func(m *nats.Msg) { must(echoConn.nats.Publish(m.Reply, answer)) })
	must(err)
	must(workConn.Flush(ctx))
	must(echoConn.Flush(ctx))
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func benchResult() *Result {
	r := &Result{Request: 1 << 40, Attempt: 1, Rows: 1, Hidden: benchHidden, Sum: make([]int64, benchHidden), Hits: []byte{255}}
	for i := range 8 {
		r.Parts = append(r.Parts, uint32(i*16))
	}
	return r
}

// startEchoProcess gives the second process; it is ended with the test.
func startEchoProcess(tb testing.TB, s *Server) {
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
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		tb.Fatalf("the second process said %q: %v", line, err)
	}
}

// BenchmarkRoundTrip is the dispatch cost of one layer for one row: quantised codes out, sums back, no work in between; beside a
// bare NATS echo of the same bytes, the two in turn.
func BenchmarkRoundTrip(b *testing.B) {
	s := startServer(b, ServerOptions{})
	startEchoProcess(b, s)

	requester := newTestRequester(b, connect(b, s, true), benchCluster)
	work := testWork(1<<40, 1, benchHidden, true)
	work.Parts, work.Weights = benchResult().Parts, make([]float32, 8)
	work.Offsets = []uint32{0, 8}
	exchange, ctx := requester.NewExchange(1), b.Context()
	layer := func() {
		work.Request++
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

	echoConn := connect(b, s, true)
	var w wire
	if err := encode(&w, kindWork, &workFrame{work: work}); err != nil {
		b.Fatal(err)
	}
	question := slices.Clone(w.buf)
	inbox, answers := nats.NewInbox(), make(chan *nats.Msg, 16)
	subscription, err := echoConn.nats.ChanSubscribe(inbox, answers)
	if err != nil {
		b.Fatal(err)
	}
	defer subscription.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	echo := func() {
		if err := echoConn.nats.PublishRequest(echoSubject, inbox, question); err != nil {
			b.Fatal(err)
		}
		if m := <-answers; len(m.Data) < 4*benchHidden {
			b.Fatalf("echo of %d bytes, headers %v", len(m.Data), m.Header)
		}
	}

	var layers, echoes []time.Duration
	for range 100 {
		layer()
		echo()
	}
	b.ReportAllocs()
	for b.Loop() {
		t0 := time.Now()
		layer()
		t1 := time.Now()
		echo()
		layers, echoes = append(layers, t1.Sub(t0)), append(echoes, time.Since(t1))
	}
	slices.Sort(layers)
	slices.Sort(echoes)
	at := func(d []time.Duration, p int) float64 { return float64(d[(len(d)-1)*p/100].Nanoseconds()) / 1e3 }
	b.ReportMetric(at(layers, 50), "p50-µs")
	b.ReportMetric(at(layers, 99), "p99-µs")
	b.ReportMetric(at(echoes, 50), "echo-p50-µs")
	b.ReportMetric(at(echoes, 99), "echo-p99-µs")
	b.ReportMetric(at(layers, 50)/at(echoes, 50), "ratio-p50")
}
