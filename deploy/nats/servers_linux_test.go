package nats

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"github.com/moepool/moepool/internal/leaks"
	"github.com/moepool/moepool/transport"
)

// TestMain lets one goroutine of nats.go v1.55.0 be: an object's Put that ends before the goroutine that it began is scheduled takes its channel
// away, and it waits on nil for ever.
func TestMain(m *testing.M) {
	leaks.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

const limit = 2 * time.Minute // only for tests that fail

// start loads nats.conf as it was written, from its own folder, as a server does; only where it listens differs.
func start(t *testing.T, o Options, host string) *server.Server {
	t.Helper()
	t.Chdir(filepath.Join(o.Dir, "server"))
	loaded, err := server.ProcessConfigFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	loaded.Host, loaded.Port, loaded.NoSigs, loaded.NoLog = host, -1, true, true
	loaded.JetStream, loaded.StoreDir, loaded.ServerName = true, t.TempDir(), host // --jetstream --store_dir --name
	if loaded.Cluster.Port != 0 {
		loaded.Cluster.Host = host
	}
	s, err := server.NewServer(loaded)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(limit) {
		t.Fatal("the server does not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// TestServers loads the configuration into three servers with routes: a worker on one answers a coordinator on another, also
// after its server has died.
func TestServers(t *testing.T) {
	o := options(t.TempDir())
	net := fmt.Sprintf("127.%d.%d.", rand.IntN(200)+10, rand.IntN(250)+1) // routes have a fixed port: addresses of our own
	o.Hosts = []string{net + "1", net + "2", net + "3"}
	if err := Generate(o); err != nil {
		t.Fatal(err)
	}
	var servers []*server.Server
	var list []string
	for _, h := range o.Hosts {
		s := start(t, o, h)
		servers, list = append(servers, s), append(list, "tls://"+s.Addr().String())
	}
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if servers[0].NumRemotes() == 2 && servers[1].NumRemotes() == 2 && servers[2].NumRemotes() == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("routes: %d %d %d", servers[0].NumRemotes(), servers[1].NumRemotes(), servers[2].NumRemotes())
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	connect := func(key string, urls ...string) (*transport.Conn, error) {
		c := transport.ConnectOptions{URL: strings.Join(urls, ","), CAFile: filepath.Join(o.Dir, "ca.pem"), Cluster: "c"}
		if key != "" {
			c.NKey = filepath.Join(o.Dir, "keys", key+".nk")
		}
		conn, err := transport.Connect(ctx, c)
		if err == nil {
			t.Cleanup(conn.Close)
		}
		return conn, err
	}
	if _, err := connect("", list...); err == nil || !strings.Contains(err.Error(), "--nats-nkey") {
		t.Fatalf("anonymous: %v", err)
	}
	near, err := connect("coordinator-main", list[0])
	if err != nil {
		t.Fatal(err)
	}
	far, err := connect("worker-left", list[1], list[2])
	if err != nil {
		t.Fatal(err)
	}
	requester, err := transport.NewRequester(near, "c")
	if err != nil {
		t.Fatal(err)
	}
	defer requester.Close()
	responder, err := transport.NewResponder(far, "c", "left-1", "i", handler{})
	if err != nil {
		t.Fatal(err)
	}
	defer responder.Close()
	if err := far.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	assign := func() error { return requester.Assign(ctx, "left-1", &transport.Assign{Coordinator: "me"}) }
	for err := assign(); err != nil; err = assign() { // until the other server knows of the subscription
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	name := []byte("an object")
	open := func(c *transport.Conn, create bool) *transport.Objects {
		for { // until JetStream's own leader is chosen, and the server at hand knows of it
			soon, cancel := context.WithTimeout(ctx, 5*time.Second)
			store, err := transport.OpenObjects(soon, c, "c", create)
			cancel()
			if err == nil {
				return store
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	if err := open(near, true).Put(ctx, "x", name); err != nil {
		t.Fatal(err)
	}
	if got, err := open(far, false).Get(ctx, "x", len(name)); err != nil || string(got) != string(name) {
		t.Fatalf("%q, %v", got, err)
	}
	servers[1].Shutdown() // the worker goes to the third
	for err := assign(); err != nil; err = assign() {
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestLoads: nats.conf is read with and without routes.
func TestLoads(t *testing.T) {
	o := options(t.TempDir())
	if err := Generate(o); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(o.Dir, "server"))
	for _, hosts := range [][]string{{"127.0.0.1"}, {"127.0.0.1", "127.0.0.2"}} {
		o.Hosts = hosts
		if err := Generate(o); err != nil {
			t.Fatal(err)
		}
		if _, err := server.ProcessConfigFile("nats.conf"); err != nil {
			t.Error(err)
		}
	}
}

// handler takes everything.
type handler struct{}

func (handler) Work(context.Context, *transport.Work) (*transport.Result, error) {
	return nil, fmt.Errorf("no work expected")
}
func (handler) Assign(context.Context, *transport.Assign) error { return nil }
func (handler) Refused(string)                                  {}
func (handler) Drain()                                          {}
func (handler) CoordinatorBeat(*transport.CoordinatorBeat)      {}
