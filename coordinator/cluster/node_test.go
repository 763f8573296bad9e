package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moepool/moepool/internal/reservedport"
	"github.com/moepool/moepool/transport"
)

// TestTakeOver: three coordinators elect one; what it commits is everywhere; when it ends, another one leads in a higher term and has all of
// it, and so has the whole group after a restart.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.startAll()
	first, term := g.lead()
	g.must(&SetManifest{transport.Identity{Format: "q8", Parts: 1}})
	g.must(&AdmitWorkers{[]Worker{{ID: "w0", Host: "h"}}})
	g.must(plan(1, "w0"))
	if s := g.agreed(); s.Plan.Epoch != 1 || s.Workers["w0"].Host != "h" || s.Manifest.Format != "q8" || s.Term < term {
		t.Fatalf("%+v", s)
	}
	g.stop(first.o.ID)
	if err := first.Apply(testContext(t), plan(2, "w0")); !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	second, secondTerm := g.lead()
	if second == first || secondTerm <= term || second.State().Plan.Epoch != 1 {
		t.Fatalf("term %d after %d, state %+v", secondTerm, term, second.State())
	}
	g.must(plan(2, "w0"))
	g.start(first.o.ID)
	if s := g.agreed(); s.Plan.Epoch != 2 {
		t.Fatalf("%+v", s)
	}
	before := g.agreed()
	g.stopAll()
	g.startAll()
	if _, thirdTerm := g.lead(); thirdTerm <= secondTerm {
		t.Fatalf("term %d after %d", thirdTerm, secondTerm)
	}
	if s := g.agreed(); s.Plan.Epoch != 2 || s.Index <= before.Index {
		t.Fatalf("%+v", s)
	}
}

// TestNoMajority: with two of three down, the third says so in time, leads no more, and changes nothing; the group works again when one is
// back.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.startAll()
	leader := g.leader()
	g.must(&AdmitWorkers{[]Worker{{ID: "w0"}}})
	var others []string
	for id := range g.running() {
		if id != leader.o.ID {
			others = append(others, id)
			g.stop(id)
		}
	}
	ctx := testContext(t)
	for what, call := range map[string]func() error{
		"apply":  func() error { return leader.Apply(ctx, plan(1, "w0")) },
		"verify": func() error { return leader.Verify(ctx) },
	} {
		waitFor(t, what+" says what is missing", func() bool {
			err := call()
			if err == nil || ctx.Err() != nil || !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrResultUnknown) {
				t.Fatalf("%s: %v", what, err)
			}
			// It may name one of the others first, if that one took over before it was stopped.
			return strings.Contains(err.Error(), "2 of its 3 voting coordinators (a, b, c) must reach each other")
		})
	}
	waitFor(t, "the end of the lead", func() bool { return !leader.Leadership().Leads })
	if leader.State().Plan != nil {
		t.Fatal("a plan without a majority")
	}
	g.start(others[0])
	g.must(plan(5, "w0"))
	if s := g.agreed(); s.Plan.Epoch != 5 && s.Plan.Epoch != 1 { // the first one may have been kept: its result was unknown
		t.Fatalf("%+v", s)
	}
}

// TestDeadline: a call ends with its context, though raft still waits.
func TestDeadline(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.startAll()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	waitFor(t, "the context's end", func() bool {
		err := g.leader().Apply(ctx, &TakeLead{"a"})
		if err != nil && !errors.Is(err, ErrResultUnknown) && !errors.Is(err, ErrNotLeader) {
			t.Fatal(err)
		}
		return errors.Is(err, ErrResultUnknown) && strings.Contains(err.Error(), "enough")
	})
}

// TestTransfer: a leader that is told to gives the lead away at once, and goes on as a follower.
func TestTransfer(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.startAll()
	leader, term := g.lead()
	changed := leader.Changed()
	if err := leader.Transfer(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if leader.Term() == term {
		select {
		case <-changed:
		case <-testContext(t).Done():
			t.Fatal("the change is not announced")
		}
	}
	if _, next := g.lead(); next <= term {
		t.Errorf("term %d after %d", next, term)
	}
	for _, n := range g.running() {
		if !n.Leadership().Leads {
			if err := n.Transfer(testContext(t)); err != nil {
				t.Errorf("a follower has nothing to give away: %v", err)
			}
		}
	}
}

// TestNobodyElse: a coordinator that is alone has nobody to give the lead to.
func TestNobodyElse(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1)
	g.startAll()
	if err := g.leader().Transfer(testContext(t)); err == nil || !strings.Contains(err.Error(), "no other coordinator that votes") {
		t.Fatal(err)
	}
}

// TestNonVoter: it has the state, never leads, and doesn't count.
func TestNonVoter(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 4)
	g.startAll()
	g.must(&AdmitWorkers{[]Worker{{ID: "w0"}}})
	if s := g.agreed(); len(s.Workers) != 1 {
		t.Fatalf("%+v", s)
	}
	g.stop("a")
	g.stop("b")
	for _, n := range g.running() {
		waitFor(t, "no leader", func() bool { return !n.Leadership().Leads && n.Leader() == "" })
		if err := n.Verify(testContext(t)); !errors.Is(err, ErrNotLeader) {
			t.Fatal(err)
		}
	}
}

// TestSnapshots: the log doesn't grow for ever; a coordinator that was away for longer than the log reaches back gets the state as a
// snapshot.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.start("a", "b")
	for i := range 60 {
		g.must(&AdmitWorkers{[]Worker{{ID: "w0", Node: i}}})
	}
	waitFor(t, "a shorter log", func() bool {
		for _, n := range g.running() {
			first, err := n.folder.log.FirstIndex()
			if err != nil || first < 30 {
				return false
			}
		}
		return true
	})
	g.start("c")
	if s := g.agreed(); s.Workers["w0"].Node != 59 {
		t.Fatalf("%+v", s)
	}
	snapshots, err := g.running()["c"].folder.snapshots.List()
	if err != nil || len(snapshots) == 0 {
		t.Fatalf("%v, %v", snapshots, err)
	}
	g.stopAll()
	g.startAll()
	g.leader()
	if s := g.agreed(); s.Workers["w0"].Node != 59 {
		t.Fatalf("%+v", s)
	}
}

// TestGroupGrows: a leader whose peers have one more adds it, with all it has to know, and takes out whom it shall.
func TestGroupGrows(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.startAll()
	g.must(&AdmitWorkers{[]Worker{{ID: "w0"}}})
	g.stopAll()
	d := Peer{ID: "d", Address: reservedport.Address(t)}
	g.peers = append(g.peers, d)
	if _, err := WriteCertificates(g.certs, g.peers); err != nil {
		t.Fatal(err)
	}
	o := g.options("d")
	o.Join = true
	node, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	g.nodes["d"] = node
	g.start("a", "b", "c")
	g.leader()
	// The state may come first, as a snapshot from before it was one of the group.
	waitFor(t, "the fourth has the state and knows itself", func() bool {
		peers, err := node.Peers()
		return err == nil && len(peers) == 4 && peers[3] == d && len(node.State().Workers) == 1
	})
	g.stopAll()
	g.peers = g.peers[1:] // without a
	for _, p := range g.peers {
		o := g.options(p.ID)
		o.Remove = []string{"a"}
		n, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		g.nodes[p.ID] = n
	}
	waitFor(t, "a is out", func() bool {
		peers, err := g.leader().Peers()
		return err == nil && len(peers) == 3 && peers[0].ID == "b"
	})
}

// TestForeignFolder: a folder belongs to one id, and to one process at a time.
func TestForeignFolder(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 2)
	g.start("a")
	o := g.options("b")
	o.Dir = filepath.Join(g.dir, "a")
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), `belongs to coordinator "a", and this one is "b"`) {
		t.Fatal(err)
	}
	if _, err := Open(g.options("a")); err == nil || !strings.Contains(err.Error(), "another process has it open") {
		t.Fatal(err)
	}
	g.stop("a")
	if err := os.Remove(filepath.Join(g.dir, "a", idFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(g.options("a")); err == nil || !strings.Contains(err.Error(), "write the id that it had") {
		t.Fatal(err)
	}
}

// TestUnknownEntry: an entry of a newer build stops the coordinator, with an error that says so; skipping it would give it another state than
// the others have.
func TestUnknownEntry(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1)
	g.start("a")
	leader := g.leader()
	before := leader.State()
	err := leader.await(testContext(t), func() error {
		future := leader.raft.Apply([]byte{commandVersion, 99, 0}, time.Second)
		if err := future.Error(); err != nil {
			return err
		}
		return future.Response().(error)
	})
	if err == nil || !strings.Contains(err.Error(), "kind 99 is not known to this build") {
		t.Fatal(err)
	}
	select {
	case <-leader.Failed():
	case <-testContext(t).Done():
		t.Fatal("it goes on")
	}
	waitFor(t, "the end of the lead", func() bool { return !leader.Leadership().Leads })
	if leader.Err() == nil || leader.State() != before {
		t.Fatal(leader.Err())
	}
	waitFor(t, "its end", func() bool { return leader.raft.State() == raft.Shutdown })
}

// TestOptions: what is wrong with the options is said with the flag's name.
func TestOptions(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"--raft-dir":                          func(o *Options) { o.Dir = "" },
		`--raft-id is "a b"`:                  func(o *Options) { o.ID = "a b" },
		"--raft-peers has no d":               func(o *Options) { o.ID = "d" },
		`the address of b is "b"`:             func(o *Options) { o.Peers[1].Address = "b" },
		"have the same id or address":         func(o *Options) { o.Peers[1] = o.Peers[0] },
		"at least one coordinator must vote":  func(o *Options) { o.Peers[0].NonVoter, o.Peers[1].NonVoter = true, true },
		"--raft-listen is \"x\"":              func(o *Options) { o.Listen = "x" },
		"--raft-remove b: it is one of":       func(o *Options) { o.Remove = []string{"b"} },
		"a heartbeat of 1ms; at least 10ms":   func(o *Options) { o.Heartbeat = time.Millisecond },
		"the group's CA":                      func(o *Options) { o.TLS.CA = "nowhere" },
		"this coordinator's certificate none": func(o *Options) { o.TLS.Cert = "none" },
	} {
		o := newGroup(t, 2).options("a")
		change(&o)
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
	for _, s := range []string{"", "a", "a,b=c:1"} {
		if _, err := ParsePeers(s); err == nil || !strings.Contains(err.Error(), "ID=HOST:PORT is needed") {
			t.Errorf("%q: %v", s, err)
		}
	}
	peers, err := ParsePeers("a=h:1, b=[::1]:2/nonvoter")
	if err != nil || len(peers) != 2 || peers[1] != (Peer{"b", "[::1]:2", true}) || peers[1].String() != "b=[::1]:2/nonvoter" {
		t.Fatal(peers, err)
	}
}
