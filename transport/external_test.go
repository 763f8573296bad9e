package transport

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/moepool/moepool/internal/reservedport"
)

// externalServers are nats-servers as users run them: each keeps its addresses when it is started again.
type externalServers struct {
	t       testing.TB
	options []*server.Options
	running []*server.Server
}

// freePort gives a port on which a server can be started, and started again.
func freePort(t testing.TB) int {
	t.Helper()
	address, err := netip.ParseAddrPort(reservedport.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	return int(address.Port())
}

func serverOptions(t testing.TB) *server.Options {
	return &server.Options{Host: "127.0.0.1", Port: freePort(t), NoSigs: true, NoLog: true, MaxPayload: 64 << 10}
}

func startExternal(t testing.TB, options ...*server.Options) *externalServers {
	t.Helper()
	e := &externalServers{t: t, options: options, running: make([]*server.Server, len(options))}
	for i := range options {
		e.start(i)
	}
	t.Cleanup(func() {
		for i := range e.running {
			e.stop(i)
		}
	})
	return e
}

func (e *externalServers) start(i int) {
	e.t.Helper()
	s, err := server.NewServer(e.options[i].Clone())
	if err != nil {
		e.t.Fatal(err)
	}
	e.running[i] = s
	go s.Start()
	if !s.ReadyForConnections(testDeadline) {
		e.t.Fatal("the server does not start")
	}
}

func (e *externalServers) stop(i int) {
	e.running[i].Shutdown()
	e.running[i].WaitForShutdown()
}

// url is the list of all servers.
func (e *externalServers) url() string {
	var all []string
	for _, o := range e.options {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", o.Port))
	}
	return strings.Join(all, ",")
}

// clustered gives options of n servers with routes to each other.
func clustered(t testing.TB, n int) []*server.Options {
	t.Helper()
	var all []*server.Options
	for i := range n {
		o := serverOptions(t)
		o.ServerName = fmt.Sprintf("s%d", i)
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: freePort(t)}
		all = append(all, o)
	}
	for _, o := range all {
		for _, other := range all {
			if other != o {
				o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", other.Cluster.Port)})
			}
		}
	}
	return all
}

// fleet is a coordinator's end and two workers, on servers that come and go.
type fleet struct {
	t         *testing.T
	conns     []*Conn
	requester *Requester
	exchange  *Exchange
	beats     chan string

	mu       sync.Mutex
	computed map[uint64]int
	unsent   map[uint64]bool
	ended    map[uint64]bool // requests that were answered or given up; only ask uses it
	patience time.Duration   // how long ask waits for an answer; it doubles with each that does not come
}

var fleetWorkers = []string{"w0", "w1"}

// newFleet connects the coordinator to one list of servers and the workers to another.
func newFleet(t *testing.T, near, far string) *fleet {
	t.Helper()
	f := &fleet{t: t, beats: make(chan string, 1000), computed: map[uint64]int{}, unsent: map[uint64]bool{}, ended: map[uint64]bool{}}
	open := func(list string) *Conn {
		c, err := Connect(testContext(t), ConnectOptions{URL: list, Cluster: "c", Name: t.Name()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		f.conns = append(f.conns, c)
		return c
	}
	f.requester = newTestRequester(t, open(near), "c")
	f.exchange = f.requester.NewExchange(4)
	stop, err := f.requester.SubscribeBeats(func(b *Beat) {
		select {
		case f.beats <- b.Worker:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for _, id := range fleetWorkers {
		responder := newTestResponder(t, open(far), "c", id, "i", &testHandler{work: func(_ context.Context, w *Work) (*Result, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.computed[w.Request]++
			return sumOf(w), nil
		}})
		end, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				_ = responder.Beat(&Beat{Worker: id, Instance: "i"}) // an error while there is no connection
				select {
				case <-end:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		}()
		t.Cleanup(func() { close(end); <-ended })
	}
	return f
}

// ask sends work of several parts and says whether it was answered, rightly, in time.
func (f *fleet) ask(worker string) bool {
	f.t.Helper()
	w := testWork(f.exchange.NextRequest(), 40, 2048, true) // larger than max_payload
	if err := f.exchange.Send(worker, w); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.unsent[w.Request] = true
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.patience)
	defer cancel()
	for {
		r, ok := f.exchange.Receive(ctx, nil)
		switch {
		case !ok:
			f.exchange.Forget(w.Request)
			f.ended[w.Request] = true
			f.patience *= 2 // it was lost, or the machine has far more to do than CPUs
			return false
		case f.ended[r.Request]: // it had come already, or is progress that another goroutine read before the result
			continue
		case f.unsent[r.Request] && r.Err != nil: // of the parts that were sent before the one that could not be
			continue
		case r.Request != w.Request:
			f.t.Fatalf("an answer to request %d came to %d", r.Request, w.Request)
		case r.Err != nil:
			f.ended[w.Request] = true
			return false
		case r.Result != nil:
			f.ended[w.Request] = true
			want := sumOf(w)
			for i, v := range r.Result.Sum {
				if v != want.Sum[i] {
					f.t.Fatalf("sum %d of request %d is %d, want %d", i, w.Request, v, want.Sum[i])
				}
			}
			return true
		}
	}
}

// recovers waits until both workers answer and beat.
func (f *fleet) recovers(what string) {
	f.t.Helper()
	f.patience = time.Second
	for _, id := range fleetWorkers {
		waitFor(f.t, id+" answers after "+what, func() bool { return f.ask(id) })
	}
	for len(f.beats) > 0 {
		<-f.beats
	}
	for seen := map[string]bool{}; len(seen) < len(fleetWorkers); {
		select {
		case id := <-f.beats:
			seen[id] = true
		case <-time.After(testDeadline):
			f.t.Fatalf("beats after %s come only from %v", what, seen)
		}
	}
}

// nothingStale: what could not be sent was never computed, and nothing was computed twice.
func (f *fleet) nothingStale() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for request, n := range f.computed {
		if n > 1 || f.unsent[request] {
			f.t.Errorf("request %d was computed %d times, unsent: %v", request, n, f.unsent[request])
		}
	}
}

// TestExternalServers: on one server, on three with routes, and through a leaf node, both ends find each other again after any of the
// servers was stopped, work is answered or fails, and nothing is sent twice.
func TestExternalServers(t *testing.T) {
	t.Parallel()
	restart := func(f *fleet, e *externalServers, which ...int) {
		for _, i := range which {
			e.stop(i)
		}
		f.patience = time.Second
		f.ask("w0") // lost, unless other servers carry it
		f.ask("w1")
		for _, i := range which {
			e.start(i)
		}
		f.recovers(fmt.Sprintf("restart of %v", which))
	}
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		e := startExternal(t, serverOptions(t))
		f := newFleet(t, e.url(), e.url())
		f.recovers("the start")
		for range 2 {
			restart(f, e, 0)
		}
		f.nothingStale()
	})
	t.Run("three", func(t *testing.T) {
		t.Parallel()
		e := startExternal(t, clustered(t, 3)...)
		f := newFleet(t, e.url(), e.url())
		f.recovers("the start")
		for i := range 3 { // two go on
			e.stop(i)
			f.recovers(fmt.Sprintf("the end of %d", i))
			e.start(i)
			f.recovers(fmt.Sprintf("the return of %d", i))
		}
		restart(f, e, 0, 1, 2)
		f.nothingStale()
	})
	// A client that knows one server only learns the others from it.
	t.Run("three, one named", func(t *testing.T) {
		t.Parallel()
		e := startExternal(t, clustered(t, 3)...)
		waitFor(t, "routes", e.knowsAll)
		first, _, _ := strings.Cut(e.url(), ",")
		f := newFleet(t, first, first)
		f.recovers("the start")
		waitFor(t, "all know the others", func() bool {
			return !slices.ContainsFunc(f.conns, func(c *Conn) bool { return len(c.nats.DiscoveredServers()) != 2 })
		})
		e.stop(0)
		f.recovers("the end of the named one")
		f.nothingStale()
	})
	t.Run("leaf", func(t *testing.T) {
		t.Parallel()
		hub := serverOptions(t)
		hub.ServerName = "hub"
		hub.LeafNode = server.LeafNodeOpts{Host: "127.0.0.1", Port: freePort(t)}
		leaf := serverOptions(t)
		leaf.ServerName = "leaf"
		leaf.LeafNode = server.LeafNodeOpts{ReconnectInterval: 50 * time.Millisecond, Remotes: []*server.RemoteLeafOpts{{
			URLs: []*url.URL{{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", hub.LeafNode.Port)}},
		}}}
		e := startExternal(t, hub, leaf)
		near, far, _ := strings.Cut(e.url(), ",")
		f := newFleet(t, near, far)
		f.recovers("the start")
		restart(f, e, 0)
		restart(f, e, 1)
		restart(f, e, 0, 1)
		f.nothingStale()
	})
}

// TestConnectionLost: work that is being computed when the connection is lost is answered at once, and what its worker says later reaches nobody.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	e := startExternal(t, serverOptions(t))
	open := func() *Conn {
		c, err := Connect(testContext(t), ConnectOptions{URL: e.url(), Cluster: "c"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	near, far := open(), open()
	requester := newTestRequester(t, near, "c")
	started, release := make(chan struct{}, 2), make(chan struct{})
	newTestResponder(t, far, "c", "w0", "i", &testHandler{work: func(_ context.Context, w *Work) (*Result, error) {
		started <- struct{}{}
		<-release
		return sumOf(w), nil
	}})
	x := requester.NewExchange(2)
	if err := x.Send("w0", testWork(1, 1, 8, true)); err != nil {
		t.Fatal(err)
	}
	<-started
	e.stop(0)
	if r := receiveFrom(t, x); r.Request != 1 || r.Worker != "w0" || !errors.Is(r.Err, ErrConnectionLost) {
		t.Fatalf("%+v", r)
	}
	e.start(0)
	back := func(c *Conn) bool { return c.nats.IsConnected() && c.nats.Stats().Reconnects > 0 } // the far one may notice the loss late
	waitFor(t, "connected again", func() bool { return back(near) && back(far) })
	close(release) // the answer to request 1 comes now
	flush(t, far)
	if err := x.Send("w0", testWork(2, 1, 8, true)); err != nil {
		t.Fatal(err)
	}
	if r := receiveFrom(t, x); r.Request != 2 || r.Err != nil {
		t.Fatalf("%+v", r)
	}
}

// knowsAll says whether each server has routes to all others.
func (e *externalServers) knowsAll() bool {
	for _, s := range e.running {
		if s.NumRemotes() < len(e.running)-1 {
			return false
		}
	}
	return true
}
