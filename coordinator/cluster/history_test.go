package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// checker collects what happened and finds what must not.
type checker struct {
	mu        sync.Mutex
	leaders   map[uint64]string            // term → who was verified as its leader
	histories map[uint64][sha256.Size]byte // index → hash of the commands up to it, of any node
	committed uint64                       // highest epoch that Apply said to be committed
	problems  []string
}

func (c *checker) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// verified notes that a node was the leader of a term at some moment of a call.
func (c *checker) verified(id string, term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, known := c.leaders[term]; known && other != id {
		c.problem("%s and %s both led term %d", other, id, term)
	}
	c.leaders[term] = id
}

// saw notes a state of a node, and that it follows an older one.
func (c *checker) saw(id string, s, former *State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.histories[s.Index]; ok && known != s.History {
		c.problem("%s has another history than others at index %d", id, s.Index)
	}
	c.histories[s.Index] = s.History
	if former != nil && (s.Index < former.Index || s.Term < former.Term || s.LeaderTerm < former.LeaderTerm || epoch(s) < epoch(former)) {
		c.problem("%s went back from %d/%d, epoch %d to %d/%d, epoch %d", id, former.Term, former.Index, epoch(former), s.Term, s.Index, epoch(s))
	}
}

// read checks a state that was read by a verified leader after these epochs had been committed.
func (c *checker) read(id string, s *State, committedBefore uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch(s) < committedBefore {
		c.problem("%s, verified as leader, read epoch %d; %d had been committed before", id, epoch(s), committedBefore)
	}
}

func (c *checker) highest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.committed
}

func epoch(s *State) uint64 {
	if s.Plan == nil {
		return 0
	}
	return s.Plan.Epoch
}

// exercise lets one node propose and read all the time; most of it is refused, since it doesn't lead.
func (c *checker) exercise(ctx context.Context, g *group, id string) {
	var former *State
	var node *Node
	for ctx.Err() == nil {
		n := g.running()[id]
		if n == nil {
			former = nil // a restart begins with the last snapshot
			time.Sleep(time.Millisecond)
			continue
		}
		if n != node {
			node, former = n, nil
		}
		s := n.State()
		c.saw(id, s, former)
		former = s
		call, cancel := context.WithTimeout(ctx, 2*time.Second)
		term, before := n.Term(), c.highest()
		if term == 0 {
			cancel()
			time.Sleep(2 * time.Millisecond)
			continue
		}
		if n.Verify(call) == nil && n.Term() == term {
			c.verified(id, term)
			c.read(id, n.State(), before)
		}
		next := epoch(n.State()) + 1
		if n.Apply(call, plan(next, "w0")) == nil {
			c.mu.Lock()
			c.committed = max(c.committed, next)
			c.mu.Unlock()
		}
		cancel()
	}
}

// TestPartitions: whatever is cut off from whatever, at most one node is verified as the leader of a term, all nodes apply the same commands in
// the same order, a verified leader knows all that was committed, and nothing that was committed is lost.
func TestPartitions(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.startAll()
	g.must(&AdmitWorkers{[]Worker{{ID: "w0"}}})
	c := &checker{leaders: map[uint64]string{}, histories: map[uint64][sha256.Size]byte{}}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	for _, p := range g.peers {
		done.Go(func() { c.exercise(ctx, g, p.ID) })
	}
	random := rand.New(rand.NewSource(5))
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	waitFor(t, "commits", func() bool { return c.highest() > 0 })
	for round := range rounds {
		isolated := g.peers[random.Intn(3)].ID
		var rest []string
		for _, p := range g.peers {
			if p.ID != isolated {
				rest = append(rest, p.ID)
			}
		}
		if leader := g.leader(); round%3 == 0 { // the one that hurts most
			isolated, rest = leader.o.ID, nil
			for _, p := range g.peers {
				if p.ID != isolated {
					rest = append(rest, p.ID)
				}
			}
		}
		switch round % 4 {
		case 0, 1:
			g.net.part([]string{isolated}, rest)
		case 2: // nobody reaches anybody
			g.net.part([]string{"a"}, []string{"b"}, []string{"c"})
		case 3: // two can't reach each other, the third reaches both
			g.net.part(rest[:1], rest[1:])
		}
		before := c.highest()
		if round%4 == 2 {
			waitFor(t, "the end of the lead", func() bool {
				for _, n := range g.running() {
					if n.Leadership().Leads {
						return false
					}
				}
				return true
			})
			time.Sleep(time.Duration(random.Intn(4)) * testHeartbeat)
		} else { // the side with a majority goes on
			waitFor(t, "commits of the majority", func() bool { return c.highest() > before+1 })
		}
		g.net.heal()
		waitFor(t, "commits after the partition", func() bool { return c.highest() > before+2 })
	}
	cancel()
	done.Wait()
	g.leader()
	final := g.agreed()
	if epoch(final) < c.committed {
		t.Errorf("epoch %d, and %d was committed", epoch(final), c.committed)
	}
	if len(c.leaders) < 3 || c.committed < 10 {
		t.Errorf("too little happened: %d terms, %d commits", len(c.leaders), c.committed)
	}
	for _, p := range c.problems {
		t.Error(p)
	}
	t.Logf("%d terms with a verified leader, %d plans committed, index %d", len(c.leaders), c.committed, final.Index)
}

// TestEqualLogs: what the nodes have on disk at the same index of the same term is the same.
func TestEqualLogs(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.startAll()
	g.must(&AdmitWorkers{[]Worker{{ID: "w0"}}})
	for i := range uint64(3) {
		g.must(plan(10*i+1, "w0"))
		g.stop(g.leader().o.ID)
		g.must(plan(10*i+2, "w0"))
		for _, p := range g.peers {
			if g.running()[p.ID] == nil {
				g.start(p.ID)
			}
		}
	}
	g.leader()
	g.agreed()
	logs := map[uint64]raft.Log{}
	for id, n := range g.running() {
		first, err := n.folder.log.FirstIndex()
		if err != nil {
			t.Fatal(err)
		}
		for i := first; i <= n.State().Index; i++ {
			var l raft.Log
			if err := n.folder.log.GetLog(i, &l); err != nil {
				if errors.Is(err, raft.ErrLogNotFound) { // compacted meanwhile
					continue
				}
				t.Fatal(err)
			}
			if known, ok := logs[i]; ok && (known.Term != l.Term || known.Type != l.Type || string(known.Data) != string(l.Data)) {
				t.Errorf("%s: entry %d is %v, of others %v", id, i, l, known)
			}
			logs[i] = l
		}
	}
}
