package transport

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/moepool/moepool/internal/reservedport"
)

func TestServerOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o      ServerOptions
		reason string
	}{
		"all interfaces":   {ServerOptions{Listen: ":0"}, "token"},
		"other interface":  {ServerOptions{Listen: "192.0.2.1:4222"}, "token"},
		"a host name":      {ServerOptions{Listen: "example.org:4222"}, "token"},
		"no port":          {ServerOptions{Listen: "127.0.0.1"}, "host:port"},
		"bad port":         {ServerOptions{Listen: "127.0.0.1:70000"}, "70000"},
		"named port":       {ServerOptions{Listen: "127.0.0.1:nats"}, "nats"},
		"small payload":    {ServerOptions{MaxPayload: 10}, "max payload 10"},
		"large payload":    {ServerOptions{MaxPayload: 1 << 30}, "max payload"},
		"negative payload": {ServerOptions{MaxPayload: -1}, "max payload -1"},
	} {
		if s, err := StartServer(c.o); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", name, err)
			if s != nil {
				s.Close()
			}
		}
	}
}

// TestServer: loopback and a random token by default, one that differs each time; everybody may connect only with the token.
func TestServer(t *testing.T) {
	t.Parallel()
	a, b := startServer(t, ServerOptions{}), startServer(t, ServerOptions{Listen: "localhost:0", Token: "secret", MaxPayload: 1 << 20})
	if len(a.Token()) < 32 || a.Token() == b.Token() || b.Token() != "secret" {
		t.Fatalf("tokens %q and %q", a.Token(), b.Token())
	}
	for _, s := range []*Server{a, b} {
		host, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL(), "nats://"))
		if err != nil || !net.ParseIP(host).IsLoopback() || port == "0" || strings.Contains(s.URL(), s.Token()) {
			t.Fatalf("%s: %v", s.URL(), err)
		}
	}
	if n := connect(t, a, true).MaxPayload(); n != defaultMaxPayload {
		t.Fatalf("max payload %d", n)
	}
	if n := connect(t, b, false).MaxPayload(); n != 1<<20 {
		t.Fatalf("max payload %d", n)
	}
	for _, token := range []string{"", "wrong", a.Token()} {
		_, err := Connect(testContext(t), ConnectOptions{URL: b.URL(), Token: token})
		if !errors.Is(err, nats.ErrAuthorization) || !strings.Contains(err.Error(), b.URL()) {
			t.Errorf("token %q: %v", token, err)
		}
	}
}

func TestServerPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := StartServer(ServerOptions{Listen: l.Addr().String()}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatal(err)
	}
}

func TestConnectErrors(t *testing.T) {
	t.Parallel()
	nobody := "nats://" + reservedport.Address(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	if _, err := Connect(ctx, ConnectOptions{URL: nobody}); err == nil || !strings.Contains(err.Error(), nobody) || !strings.Contains(err.Error(), "enough") {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for name, o := range map[string]ConnectOptions{
		"no URL":      {},
		"nkey":        {URL: nobody, NKey: missing},
		"half of TLS": {URL: nobody, CertFile: missing},
		"CA":          {URL: nobody, CAFile: missing},
		"credentials": {URL: nobody, Credentials: missing},
	} {
		if _, err := Connect(ctx, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNKeyFile(t *testing.T) {
	t.Parallel()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "user.nk")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	o := ConnectOptions{URL: "nats://127.0.0.1:1", NKey: file}
	if _, err := o.options(&Conn{}); err != nil {
		t.Fatal(err)
	}
}

// TestConnectWaits: a server that comes up later is found.
func TestConnectWaits(t *testing.T) {
	t.Parallel()
	address := reservedport.Address(t)
	var wait sync.WaitGroup
	wait.Go(func() {
		c, err := Connect(testContext(t), ConnectOptions{URL: "nats://" + address, Token: "t"})
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	})
	time.Sleep(50 * time.Millisecond) // most likely one attempt has failed by now; the test holds either way
	startServer(t, ServerOptions{Listen: address, Token: "t"})
	wait.Wait()
}

// TestReconnect: after the server was away, work flows again, what was sent meanwhile is an error and is never replayed, and
// both events are said.
func TestReconnect(t *testing.T) {
	t.Parallel()
	address := reservedport.Address(t)
	start := func() *Server {
		s, err := StartServer(ServerOptions{Listen: address, Token: "t"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := start()
	var mu sync.Mutex
	var said []string
	saidByBoth := func(what string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			n := 0
			for _, format := range said {
				if strings.Contains(format, what) {
					n++
				}
			}
			return n >= 2
		}
	}
	open := func() *Conn {
		c, err := Connect(testContext(t), ConnectOptions{URL: s.URL(), Token: "t", Log: func(format string, _ ...any) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, format)
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	near, far := open(), open()
	requester := newTestRequester(t, near, "c")
	var computed []uint64
	newTestResponder(t, far, "c", "w0", "i0", &testHandler{work: func(_ context.Context, w *Work) (*Result, error) {
		computed = append(computed, w.Request)
		return sumOf(w), nil
	}})
	replies := make(chan Reply, 4)
	send := func(request uint64) error { return requester.Send("w0", testWork(request, 1, 8, true), replies) }
	if err := send(1); err != nil {
		t.Fatal(err)
	}
	receive(t, replies)
	s.Close()
	waitFor(t, "disconnected", func() bool { return !near.nats.IsConnected() && !far.nats.IsConnected() })
	waitFor(t, "the loss is said", saidByBoth("lost")) // then it is over for what was under way, too: it must not meet request 3
	if err := send(2); err == nil || !strings.Contains(err.Error(), "not connected") {
		t.Fatal(err)
	}
	s = start()
	defer s.Close()
	waitFor(t, "connected", func() bool { return near.nats.IsConnected() && far.nats.IsConnected() })
	flush(t, far)
	if err := send(3); err != nil {
		t.Fatal(err)
	}
	if r := receive(t, replies); r.Request != 3 || r.Result == nil {
		t.Fatalf("%+v", r)
	}
	if len(computed) != 2 || computed[0] != 1 || computed[1] != 3 {
		t.Fatalf("computed %v", computed)
	}
	waitFor(t, "the return is said", saidByBoth("again"))
}

// TestServerIsQuiet: starting, connecting and ending say nothing.
func TestServerIsQuiet(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var said []string
	s, err := StartServer(ServerOptions{Log: func(format string, _ ...any) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, format)
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []ConnectOptions{{Server: s}, {URL: s.URL(), Token: s.Token()}} {
		c, err := Connect(testContext(t), o)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	s.Close()
	mu.Lock()
	defer mu.Unlock()
	if len(said) != 0 {
		t.Fatal(said)
	}
	if _, err := Connect(testContext(t), ConnectOptions{Server: s}); err == nil {
		t.Fatal("connected to a closed server")
	}
}

// TestReconnectAfterWrongToken: a connection that was refused for a while goes on trying.
func TestReconnectAfterWrongToken(t *testing.T) {
	t.Parallel()
	address := reservedport.Address(t)
	s, err := StartServer(ServerOptions{Listen: address, Token: "right"})
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan struct{}, 100)
	c, err := Connect(testContext(t), ConnectOptions{URL: s.URL(), Token: "right", Log: func(_ string, args ...any) {
		for _, a := range args {
			if err, ok := a.(error); ok && errors.Is(err, nats.ErrAuthorization) {
				refused <- struct{}{}
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s.Close()
	if s, err = StartServer(ServerOptions{Listen: address, Token: "wrong"}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		<-refused
	}
	s.Close()
	if s, err = StartServer(ServerOptions{Listen: address, Token: "right"}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	waitFor(t, "connected", c.nats.IsConnected)
}
