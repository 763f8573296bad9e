package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/internal/reservedport"
)

const (
	testDeadline  = 60 * time.Second
	testHeartbeat = 250 * time.Millisecond // a crowded machine must be able to hold an election
)

func testContext(t testing.TB) context.Context {
	ctx, cancel := contextWithDeadline()
	t.Cleanup(cancel)
	return ctx
}

func contextWithDeadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), testDeadline)
}

func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(testDeadline); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, testDeadline)
		}
	}
}

// group is coordinators a, b, c, ... in this process, on loopback with TLS.
type group struct {
	t     testing.TB
	peers []Peer
	certs string
	dir   string
	net   *faultyNetwork

	mu    sync.Mutex
	nodes map[string]*Node
	said  []string
}

// newGroup prepares a group of n coordinators; the ones after the first three have no vote.
func newGroup(t testing.TB, n int) *group {
	t.Helper()
	g := &group{t: t, certs: t.TempDir(), dir: t.TempDir(), nodes: map[string]*Node{}, net: newFaultyNetwork()}
	for i := range n {
		g.peers = append(g.peers, Peer{ID: string(rune('a' + i)), Address: reservedport.Address(t), NonVoter: i >= 3})
	}
	if _, err := WriteCertificates(g.certs, g.peers); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.stopAll)
	return g
}

func (g *group) options(id string) Options {
	return Options{
		Dir: filepath.Join(g.dir, id), ID: id, Peers: slices.Clone(g.peers), TLS: CertificateFiles(g.certs, id), Heartbeat: testHeartbeat,
		SnapshotEvery: 8, SnapshotInterval: 20 * time.Millisecond,
		Log: func(format string, args ...any) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.said = append(g.said, id+": "+fmt.Sprintf(format, args...))
		},
		dial: g.net.dialer(id, g.peers),
	}
}

func (g *group) start(ids ...string) {
	g.t.Helper()
	for _, id := range ids {
		n, err := Open(g.options(id))
		if err != nil {
			g.t.Fatalf("%s: %v", id, err)
		}
		g.mu.Lock()
		g.nodes[id] = n
		g.mu.Unlock()
	}
}

func (g *group) startAll() {
	for _, p := range g.peers {
		g.start(p.ID)
	}
}

func (g *group) stop(id string) {
	g.mu.Lock()
	n := g.nodes[id]
	delete(g.nodes, id)
	g.mu.Unlock()
	if err := n.Close(); err != nil {
		g.t.Errorf("%s: %v", id, err)
	}
}

func (g *group) stopAll() {
	for id := range g.running() {
		g.stop(id)
	}
}

func (g *group) running() map[string]*Node {
	g.mu.Lock()
	defer g.mu.Unlock()
	nodes := map[string]*Node{}
	for id, n := range g.nodes {
		nodes[id] = n
	}
	return nodes
}

// leader waits until one of the running nodes leads, and a majority says so.
func (g *group) leader() *Node {
	g.t.Helper()
	leader, _ := g.lead()
	return leader
}

// lead is leader, with the term in which it led: on a crowded machine it may have lost the lead by now.
func (g *group) lead() (leader *Node, term uint64) {
	g.t.Helper()
	waitFor(g.t, "a verified leader", func() bool {
		for _, n := range g.running() {
			if term = n.Term(); term != 0 && n.Verify(testContext(g.t)) == nil && n.Term() == term {
				leader = n
				return true
			}
		}
		return false
	})
	return leader, term
}

// must applies a command through whoever leads, again if need be.
func (g *group) must(c Command) {
	g.t.Helper()
	waitFor(g.t, fmt.Sprintf("%T committed", c), func() bool {
		err := g.leader().Apply(testContext(g.t), c)
		var refused *RefusedError
		if errors.As(err, &refused) {
			g.t.Fatalf("%T: %v", c, err)
		}
		return err == nil
	})
}

// agreed waits until all running nodes have the same state, and gives it.
func (g *group) agreed() *State {
	g.t.Helper()
	var state *State
	waitFor(g.t, "the same state everywhere", func() bool {
		state = nil
		for _, n := range g.running() {
			s := n.State()
			if state != nil && (s.Index != state.Index || s.History != state.History) {
				return false
			}
			state = s
		}
		return true
	})
	return state
}

// plan puts one expert part on a worker.
func plan(epoch uint64, worker string) *CommitPlan {
	owners := map[int][][]string{0: {{worker}}}
	return &CommitPlan{&placement.Plan{Epoch: epoch, Owners: owners, Owned: owned(owners, []string{worker})}}
}

// faultyNetwork cuts connections between coordinators.
type faultyNetwork struct {
	mu    sync.Mutex
	cut   map[[2]string]bool
	conns map[[2]string][]net.Conn
}

func newFaultyNetwork() *faultyNetwork {
	return &faultyNetwork{cut: map[[2]string]bool{}, conns: map[[2]string][]net.Conn{}}
}

func pair(a, b string) [2]string {
	if a > b {
		a, b = b, a
	}
	return [2]string{a, b}
}

func (f *faultyNetwork) dialer(id string, peers []Peer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		i := slices.IndexFunc(peers, func(p Peer) bool { return p.Address == address })
		if i < 0 {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		between := pair(id, peers[i].ID)
		f.mu.Lock()
		cut := f.cut[between]
		f.mu.Unlock()
		if cut {
			return nil, os.ErrDeadlineExceeded
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.cut[between] {
			conn.Close()
			return nil, os.ErrDeadlineExceeded
		}
		f.conns[between] = append(f.conns[between], conn)
		return conn, nil
	}
}

// part cuts all connections between coordinators of different sides.
func (f *faultyNetwork) part(sides ...[]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = map[[2]string]bool{}
	for i, side := range sides {
		for _, other := range sides[i+1:] {
			for _, a := range side {
				for _, b := range other {
					f.cut[pair(a, b)] = true
					for _, c := range f.conns[pair(a, b)] {
						c.Close()
					}
					delete(f.conns, pair(a, b))
				}
			}
		}
	}
}

func (f *faultyNetwork) heal() { f.part() }
