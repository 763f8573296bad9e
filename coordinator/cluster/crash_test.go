//go:build unix

package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/moepool/moepool/internal/leaks"
)

// childVariable makes the test binary one coordinator, whose options it holds.
const childVariable = "MOEPOOL_TEST_CLUSTER_CHILD"

type childOptions struct {
	Dir, ID string
	Peers   []Peer
	TLS     TLSFiles
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaks.VerifyTestMain(m)
}

// child commits plans of rising epochs whenever it leads, and says each epoch that is committed for certain, until it is killed.
func child(text string) error {
	var c childOptions
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	n, err := Open(Options{Dir: c.Dir, ID: c.ID, Peers: c.Peers, TLS: c.TLS, Heartbeat: testHeartbeat, SnapshotEvery: 16, SnapshotInterval: 20 * time.Millisecond,
		Log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, c.ID+": "+format+"\n", args...) }})
	if err != nil {
		return err
	}
	for {
		changed := n.Changed()
		if !n.Leadership().Leads {
			<-changed
			continue
		}
		ctx, cancel := contextWithDeadline()
		next := epoch(n.State()) + 1
		if n.Apply(ctx, &AdmitWorkers{[]Worker{{ID: "w0"}}}) == nil && n.Apply(ctx, plan(next, "w0")) == nil {
			fmt.Println(next)
		}
		cancel()
	}
}

// committedBy collects what coordinators say to be committed.
type committedBy struct {
	mu      sync.Mutex
	highest uint64
	times   map[uint64]int // epoch → how often
}

func (c *committedBy) add(epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.highest = max(c.highest, epoch)
	c.times[epoch]++
}

func (c *committedBy) get() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.highest
}

// TestKilledAtAnyMoment: one of three processes after another is killed at random moments and started again. Every plan that was said to be
// committed stays, no epoch is committed twice, and the group works on.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said := &committedBy{times: map[uint64]int{}}
	var reading sync.WaitGroup
	running := map[string]*exec.Cmd{}
	start := func(id string) {
		options, err := json.Marshal(childOptions{filepath.Join(g.dir, id), id, g.peers, CertificateFiles(g.certs, id)})
		if err != nil {
			t.Fatal(err)
		}
		p := exec.Command(self)
		stderr := &bytes.Buffer{}
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(stderr)
			}
		})
		p.Env, p.Stderr = append(os.Environ(), childVariable+"="+string(options)), stderr
		out, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		running[id] = p
		reading.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var epoch uint64
				if n, err := fmt.Sscanln(lines.Text(), &epoch); n == 1 && err == nil {
					said.add(epoch)
				}
			}
		})
	}
	kill := func(id string) {
		_ = running[id].Process.Kill()
		_ = running[id].Wait() // killed
		delete(running, id)
	}
	defer func() {
		for id := range running {
			kill(id)
		}
		reading.Wait()
	}()
	for _, p := range g.peers {
		start(p.ID)
	}
	random := rand.New(rand.NewSource(11))
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for range rounds {
		before := said.get()
		waitFor(t, "commits", func() bool { return said.get() > before+3 })
		time.Sleep(time.Duration(random.Intn(30000)) * time.Microsecond) // the random moment
		id := g.peers[random.Intn(3)].ID
		kill(id)
		before = said.get()
		waitFor(t, "commits of the others", func() bool { return said.get() > before+1 })
		start(id)
	}
	for _, p := range g.peers {
		kill(p.ID)
	}
	reading.Wait()
	g.startAll()
	g.leader()
	if s := g.agreed(); epoch(s) < said.get() {
		t.Errorf("epoch %d, and %d was committed", epoch(s), said.get())
	}
	for epoch, times := range said.times {
		if times != 1 {
			t.Errorf("epoch %d was committed %d times", epoch, times)
		}
	}
	t.Logf("%d plans committed, %d of them told", epoch(g.agreed()), len(said.times))
}
