//go:build linux

package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/moepool/moepool/deploy/nats"
	"github.com/moepool/moepool/internal/reservedport"
)

// natsServer is a nats-server as users run it, from deploy/nats/nats.conf.
type natsServer struct {
	dir     string
	options *server.Options
	running *server.Server
}

// newNATSServer makes keys for two workers, a coordinator, a client and an operator, and loads nats.conf as it is, in its folder; only the address
// differs. The test can't be parallel.
func newNATSServer(t *testing.T) *natsServer {
	t.Helper()
	s := &natsServer{dir: t.TempDir()}
	err := nats.Generate(nats.Options{
		Dir: s.dir, Cluster: "site", Hosts: []string{"127.0.0.1"}, Coordinators: []string{"main"}, Clients: []string{"main"}, Admins: []string{"main"},
		Workers: []nats.Worker{{Name: "left", IDs: []string{"left-node0"}}, {Name: "right", IDs: []string{"right-node0"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(s.dir, "server"))
	if s.options, err = server.ProcessConfigFile("nats.conf"); err != nil {
		t.Fatal(err)
	}
	s.options.NoSigs, s.options.NoLog = true, true
	s.listenOn(t)
	s.start(t)
	t.Cleanup(s.stop)
	return s
}

// listenOn chooses an address that stays the server's when it is restarted.
func (s *natsServer) listenOn(t *testing.T) {
	t.Helper()
	host, port, err := net.SplitHostPort(reservedport.Address(t))
	if err == nil {
		s.options.Host = host
		s.options.Port, err = strconv.Atoi(port)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *natsServer) start(t *testing.T) {
	t.Helper()
	var err error
	if s.running, err = server.NewServer(s.options.Clone()); err != nil {
		t.Fatal(err)
	}
	go s.running.Start()
	if !s.running.ReadyForConnections(waitLimit) {
		t.Fatal("the NATS server does not start")
	}
}

func (s *natsServer) stop() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

// as are the flags of whoever holds a key; "" is nobody's.
func (s *natsServer) as(key string) []string {
	flags := []string{"--nats", "tls://" + s.running.Addr().String(), "--nats-ca", filepath.Join(s.dir, "ca.pem"), "--cluster", "site"}
	if key != "" {
		flags = append(flags, "--nats-nkey", filepath.Join(s.dir, "keys", key+".nk"))
	}
	return flags
}

// TestNATSConfiguration runs coordinator, workers, client and operator as processes with the keys, permissions and certificates of deploy/nats: what each is
// for works, also after the server was restarted, with the same text as on one host, and with another's key each gets an error that says so.
func TestNATSConfiguration(t *testing.T) {
	s := newNATSServer(t)
	coordinator := startProcess(t, append([]string{"coordinator", "--json", "--workers", "2", "--http", "none"}, s.as("coordinator-main")...)...)
	worker := func(id, key string) *process {
		return startProcess(t, append([]string{"worker", "--id", id, "--node", "0", "--arena-dir", "none"}, s.as(key)...)...)
	}
	worker("left-node0", "worker-left")
	worker("right-node0", "worker-right")
	coordinator.awaitOutput(t, &coordinator.stdout, "}")
	alone := runJSON(t, "--max-tokens", "24", demoPrompt)
	ask := func(when string) {
		t.Helper()
		r := runJSON(t, append([]string{"--max-tokens", "24", demoPrompt}, s.as("client-main")...)...)
		if r.Text != alone.Text || r.FinishReason != alone.FinishReason {
			t.Errorf("%s: %q (%s), alone %q (%s)", when, r.Text, r.FinishReason, alone.Text, alone.FinishReason)
		}
	}
	ask("with keys")
	if status := moepool(t, append([]string{"status"}, s.as("admin-main")...)...); !strings.Contains(status, "left-node0") {
		t.Errorf("status: %s", status)
	}
	for name, c := range map[string]struct {
		args  []string
		words []string
	}{
		"anonymous":                      {append([]string{"run", "x"}, s.as("")...), []string{"Authorization", "--nats-nkey"}},
		"a worker that asks for text":    {append([]string{"run", "x"}, s.as("worker-left")...), []string{"not allow", "generate"}},
		"a client that asks for status":  {append([]string{"status"}, s.as("client-main")...), []string{"not allow", "admin"}},
		"a client that drains a worker":  {append([]string{"drain", "left-node0"}, s.as("client-main")...), []string{"not allow", "admin"}},
		"a worker that drains another":   {append([]string{"drain", "right-node0"}, s.as("worker-left")...), []string{"not allow", "admin"}},
		"a client as a worker":           {append([]string{"worker", "--id", "left-node0", "--arena-dir", "none"}, s.as("client-main")...), []string{"not allow", "left-node0"}},
		"a worker as another":            {append([]string{"worker", "--id", "right-node0", "--arena-dir", "none"}, s.as("worker-left")...), []string{"not allow", "right-node0"}},
		"a worker as coordinator":        {append([]string{"coordinator", "--http", "none"}, s.as("worker-left")...), []string{"not allow", "reply"}},
		"without the server's authority": {[]string{"run", "--nats", "tls://" + s.running.Addr().String(), "x"}, []string{"--nats-ca"}},
	} {
		stderr := moepoolFails(t, exitFailure, c.args...)
		for _, w := range c.words {
			if !strings.Contains(stderr, w) {
				t.Errorf("%s: %q lacks %q", name, stderr, w)
			}
		}
	}
	ask("after strangers")

	s.stop()
	s.start(t)
	waitFor(t, waitLimit, func() (bool, string) {
		n := s.running.NumClients()
		return n >= 3, fmt.Sprintf("coordinator and workers to connect again, %d have", n)
	})
	ask("after a restart")
}

// TestNATSRestart: the server is restarted while text is generated. The answer is the undisturbed one, or an error within the deadline; whoever asks
// afterwards gets the undisturbed one.
func TestNATSRestart(t *testing.T) {
	t.Parallel()
	s := &natsServer{options: &server.Options{NoSigs: true, NoLog: true, Authorization: "t", MaxPayload: 1 << 20}}
	s.listenOn(t)
	s.start(t)
	t.Cleanup(func() { s.stop() })
	at := []string{"--nats", "nats://" + s.running.Addr().String(), "--token-file", writeFile(t, "t"), "--model", longModel(t)}
	coordinator := startProcess(t, append([]string{"coordinator", "--json", "--workers", "2", "--http", "none"}, at...)...)
	all := []*process{coordinator}
	for _, id := range []string{"left", "right"} {
		all = append(all, startProcess(t, append([]string{"worker", "--id", id, "--node", "0", "--arena-dir", "none"}, at...)...))
	}
	coordinator.awaitOutput(t, &coordinator.stdout, "}")
	ask := append([]string{"run", "--quiet", "--raw", "--max-tokens", "1500", "--ignore-eos", demoPrompt}, at[:4]...)
	undisturbed := moepool(t, ask...)
	for i := range 3 {
		client := startProcess(t, ask...)
		waitFor(t, waitLimit, func() (bool, string) {
			return len(client.stdout.String()) > 20, "text; stderr: " + client.stderr.String()
		})
		s.stop()
		s.start(t)
		begin := time.Now()
		code := client.await(t, waitLimit)
		text := client.stdout.String()
		t.Logf("restart %d: exit code %d, %d of %d bytes, after %v, stderr %q", i, code, len(text), len(undisturbed), time.Since(begin), client.stderr.String())
		if code == 0 && text != undisturbed {
			t.Errorf("%q, undisturbed %q", text, undisturbed)
		}
		if code != 0 && (code != exitFailure || !strings.HasPrefix(undisturbed, strings.TrimSuffix(text, "\n"))) {
			t.Errorf("exit code %d, %q is no beginning of the undisturbed text", code, text)
		}
		waitFor(t, waitLimit, func() (bool, string) {
			again := startProcess(t, ask...)
			return again.await(t, waitLimit) == 0 && again.stdout.String() == undisturbed, "the undisturbed text after a restart; stderr: " + again.stderr.String()
		})
	}
	for _, p := range all {
		select {
		case <-p.ended:
			t.Errorf("%v ended: %s", p.Args[1:], p.stderr.String())
		default:
		}
	}
}
