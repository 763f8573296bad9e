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
	r, err := NewResponder(workConn, benchCluster, "w0", "i0", &testHandler{work: func(context.Context, *Work) (*Result, error) { return result, nil }})
	must(err)
	offer, err := r.OfferLane(func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
	must(err)
	var w wire
	must(encode(&w, kindResult, result))
	answer := slices.Clone(w.buf)
	pongAnswer := withLength(answer)
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
			go pong(c, pongAnswer)
		}
	}()
	fmt.Println(offer.Host, offer.Address, offer.Secret, bare)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// pong answers every message, which begins with its length, with the same bytes: the least that a stream socket can cost.
func pong(c net.Conn, answer []byte) {
	buf := make([]byte, 64<<10)
	for {
		if err := readMessage(c, buf); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// readMessage reads what one write of the other side wrote; the first four bytes say how much that is.
func readMessage(c net.Conn, buf []byte) error {
	for n, need := 0, 4; n < need; {
		got, err := c.Read(buf[n:])
		if err != nil {
			return err
		}
		if n += got; n >= 4 {
			need = int(binary.LittleEndian.Uint32(buf))
		}
	}
	return nil
}

func benchResult() *Result {
	r := &Result{Request: 1 << 40, Attempt: 1, Rows: 1, Hidden: benchHidden, Sum: make([]int64, benchHidden), Hits: []byte{255}}
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
			work.Parts, work.Weights = benchResult().Parts, make([]float32, 8)
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
			trips := []struct {
				name string
				trip func()
			}{
				{"nats", layerTrip(b, far, work)}, {"echo", echoTrip(b, s, slices.Clone(w.buf))},
				{"lane", layerTrip(b, near, work)}, {"socket", socketTrip(b, bare, withLength(w.buf))},
			}
			took := make([][]time.Duration, len(trips))
			for range 100 {
				for _, t := range trips {
					t.trip()
				}
			}
			for b.Loop() {
				for i, t := range trips {
					began := time.Now()
					t.trip()
					took[i] = append(took[i], time.Since(began))
				}
			}
			at := func(i, percent int) float64 {
				return float64(took[i][(len(took[i])-1)*percent/100].Nanoseconds()) / 1e3
			}
			for i, t := range trips {
				slices.Sort(took[i])
				b.ReportMetric(at(i, 50), t.name+"-p50-µs")
				b.ReportMetric(at(i, 99), t.name+"-p99-µs")
			}
			b.ReportMetric(at(0, 50)/at(1, 50), "nats/echo")
			b.ReportMetric(at(2, 50)/at(3, 50), "lane/socket")
		})
	}
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
	buf := make([]byte, 64<<10)
	return func() {
		if _, err := c.Write(question); err != nil {
			b.Fatal(err)
		}
		if err := readMessage(c, buf); err != nil {
			b.Fatal(err)
		}
	}
}
