//go:build linux

package main

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/moepool/moepool/internal/reservedport"
	"github.com/moepool/moepool/transport"
)

// vandal sends broken frames on every subject on which it sees messages, as many as it sees.
type vandal struct {
	conn  *nats.Conn
	inbox string
	sent  atomic.Int64

	mu       sync.Mutex
	random   *rand.Rand
	subjects map[string]int // by what follows the cluster
}

func newVandal(t *testing.T, url, token string) *vandal {
	t.Helper()
	v := &vandal{inbox: "moe.default.inbox.any.vandal", random: rand.New(rand.NewPCG(1, 2)), subjects: map[string]int{}}
	var err error
	if v.conn, err = nats.Connect(url, nats.Token(token), nats.NoEcho()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.conn.Close)
	for _, s := range []string{"moe.>", "$SRV.>"} {
		if _, err := v.conn.Subscribe(s, v.see); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return v
}

// see answers a message with a broken one, unless it is for the vandal itself.
func (v *vandal) see(m *nats.Msg) {
	if m.Subject == v.inbox {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.subjects[strings.Join(append(strings.Split(m.Subject, "."), "")[:min(3, strings.Count(m.Subject, ".")+1)], ".")]++
	for _, s := range []string{m.Subject, rarelyUsed[v.random.IntN(len(rarelyUsed))]} {
		reply := []string{"", v.inbox}[v.random.IntN(2)]
		_ = v.conn.PublishRequest(s, reply, v.broken(m.Data)) // fails only when the test has ended
		v.sent.Add(1)
	}
}

// rarelyUsed are subjects on which little is sent, or nothing while text is generated.
var rarelyUsed = []string{
	"moe.default.ctl.left", "moe.default.ctl.right", "moe.default.ctl.nobody", "moe.default.work.nobody", "moe.default.beat.left", "moe.default.beat.nobody",
	"moe.default.coordinator", "moe.default.generate.request", "moe.default.generate.stream.x.1", "moe.default.admin.status", "moe.default.admin.drain",
	"moe.default.admin.rebalance", "$SRV.PING", "$SRV.INFO.moepool",
}

// broken gives noise, or a frame with its head right and the rest not.
func (v *vandal) broken(frame []byte) []byte {
	noise := make([]byte, 1+v.random.IntN(300))
	for i := range noise {
		noise[i] = byte(v.random.Uint32())
	}
	if len(frame) < 4 {
		return noise
	}
	switch v.random.IntN(5) {
	case 0:
		return noise
	case 1: // cut
		return frame[:v.random.IntN(len(frame))]
	case 2: // too long
		return append(append([]byte{}, frame...), noise...)
	case 3: // another version
		return append([]byte{0x93, transport.ProtocolVersion + 1}, frame[2:]...)
	}
	return append(append([]byte{}, frame[:3]...), 0xdd, 0xff, 0xff, 0xff, 0xff) // an array of four billion
}

// TestFuzzedSubjects: broken frames on every subject of the cluster while text is generated change nothing, and everything lives on.
func TestFuzzedSubjects(t *testing.T) {
	t.Parallel()
	const token = "token-of-the-test"
	file, address := writeFile(t, token), reservedport.Address(t)
	at := []string{"--nats", "nats://" + address, "--token-file", file}
	coordinator := startProcess(t, "coordinator", "--json", "--listen", address, "--token-file", file, "--workers", "2", "--http", "127.0.0.1:0")
	coordinator.awaitOutput(t, &coordinator.stderr, "waiting for 2 worker")
	all := []*process{coordinator}
	for _, id := range []string{"left", "right"} {
		all = append(all, startProcess(t, append([]string{"worker", "--id", id, "--node", "0", "--arena-dir", "none"}, at...)...))
	}
	coordinator.awaitOutput(t, &coordinator.stdout, "}")
	ask := func() runReport { return runJSON(t, append(at, "--max-tokens", "40", "--ignore-eos", demoPrompt)...) }
	quiet := ask()
	v := newVandal(t, "nats://"+address, token)
	for range 3 {
		if loud := ask(); loud.Text != quiet.Text || len(loud.Tokens) != 40 {
			t.Errorf("%d tokens %q, undisturbed %q", len(loud.Tokens), loud.Text, quiet.Text)
		}
	}
	v.mu.Lock()
	t.Logf("%d broken frames beside %v", v.sent.Load(), v.subjects)
	for _, s := range []string{"work", "reply", "generate", "inbox"} {
		if v.subjects["moe.default."+s] == 0 {
			t.Errorf("nothing was seen on %s", s)
		}
	}
	v.mu.Unlock()
	waitFor(t, waitLimit, func() (bool, string) { // beats go on
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.subjects["moe.default.beat"] > 4 && v.subjects["moe.default.coordinator"] > 2, "beats"
	})
	if again := ask(); again.Text != quiet.Text {
		t.Errorf("at the end %q, undisturbed %q", again.Text, quiet.Text)
	}
	for _, p := range all {
		select {
		case <-p.ended:
			t.Errorf("%v ended: %s", p.Args[1:], p.stderr.String())
		default:
		}
	}
}
