package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Leadership is whether this coordinator leads.
type Leadership struct {
	Leads bool
	Term  uint64 // of its lead; 0 while it doesn't lead
}

// Node is one coordinator's end of the group.
type Node struct {
	o         Options
	raft      *raft.Raft
	folder    *folder
	machine   *machine
	notify    chan bool
	calls     calls
	watcher   sync.WaitGroup
	ctx       context.Context
	cancel    context.CancelFunc
	failed    chan struct{}
	closeOnce sync.Once
	shutdown  func() raft.Future // lets raft answer, then tells it to end; the future's Error waits, and closes the network

	mu         sync.Mutex
	leadership Leadership
	changed    chan struct{} // closed at each change of leadership, then replaced
	err        error         // why failed is closed
}

const (
	trailingShare = 4                // of SnapshotEvery: entries kept behind a snapshot, so that a follower that is a little late needs none
	connections   = 3                // to each peer that are kept
	applyLimit    = 10 * time.Second // of calls without a deadline of their own
)

// Open starts a coordinator's end of its group: it takes part in elections from now on. A new folder begins the group, unless Options.Join.
func Open(o Options) (_ *Node, err error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	n := &Node{o: o, notify: make(chan bool, 8), failed: make(chan struct{}), changed: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.machine = newMachine(n.fail)
	logger := raftLogger(o.Log)
	if n.folder, err = openFolder(o.Dir, o.ID, logger); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			n.cancel()
			n.folder.log.Close()
		}
	}()
	own, _ := o.self()
	layer, err := listen(o.Listen, own.Address, o.TLS, o.dial, o.Log)
	if err != nil {
		return nil, fmt.Errorf("the coordinators' port: %w", err)
	}
	network := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: layer, MaxPool: connections, Timeout: 2 * o.Heartbeat, Logger: logger, MsgpackUseNewTimeFormat: true,
	})
	defer func() {
		if err != nil {
			network.Close()
		}
	}()
	c := raft.DefaultConfig()
	c.LocalID, c.Logger, c.NotifyCh = raft.ServerID(o.ID), logger, n.notify
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = o.Heartbeat, o.Heartbeat, o.Heartbeat/2
	c.ShutdownOnRemove = false
	c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs = o.SnapshotEvery, o.SnapshotInterval, o.SnapshotEvery/trailingShare
	if !o.Join {
		err := raft.BootstrapCluster(c, n.folder.log, n.folder.log, n.folder.snapshots, network, o.configuration())
		if err != nil && !errors.Is(err, raft.ErrCantBootstrap) { // it has begun before
			return nil, fmt.Errorf("begin the group: %w", err)
		}
	}
	if n.raft, err = raft.NewRaft(c, n.machine, n.folder.log, n.folder.log, n.folder.snapshots, network); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Dir, err)
	}
	n.shutdown = sync.OnceValue(func() raft.Future {
		n.calls.end(applyLimit)
		return n.raft.Shutdown() // a second one would wait for nothing
	})
	n.watcher.Add(1)
	go n.watch()
	return n, nil
}

// Close ends it and waits for everything that it began, for 10 s at most if raft doesn't answer. A leader should Transfer before.
func (n *Node) Close() error {
	var err error
	n.closeOnce.Do(func() {
		n.cancel()
		err = n.shutdown().Error()
		n.watcher.Wait()
		if closed := n.folder.log.Close(); err == nil {
			err = closed
		}
	})
	return err
}

// ID is this coordinator's.
func (n *Node) ID() string { return n.o.ID }

// State is what this coordinator knows to be agreed on. It may be behind, unless Verify said a moment ago that this one leads.
func (n *Node) State() *State { return n.machine.State() }

// Failed is closed when this coordinator can't take part any more; Err says why.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Err is why Failed is closed, nil before.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// fail is called from raft's goroutine: it must not wait for raft.
func (n *Node) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return
	}
	n.err = err
	close(n.failed)
}

// Leadership is whether this coordinator leads, and in which term. When it says so, all that former leaders committed is in State.
func (n *Node) Leadership() Leadership {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leadership
}

// Changed is closed at the next change of Leadership.
func (n *Node) Changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// Term is that of this coordinator's lead, 0 while it doesn't lead.
func (n *Node) Term() uint64 { return n.Leadership().Term }

// Leader is the id of the coordinator that leads as far as this one knows, "" if it knows of none.
func (n *Node) Leader() string {
	_, id := n.raft.LeaderWithID()
	return string(id)
}

func (n *Node) set(l Leadership) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leadership == l {
		return
	}
	n.leadership = l
	close(n.changed)
	n.changed = make(chan struct{})
}

// watch is the goroutine that follows what raft says of this one's lead.
func (n *Node) watch() {
	defer n.watcher.Done()
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case leads := <-n.notify:
			stop()
			n.set(Leadership{})
			stop = func() {}
			if leads {
				stop = n.establish()
			}
		case <-n.failed:
			n.set(Leadership{})
			n.shutdown()
			return
		case <-n.ctx.Done():
			n.set(Leadership{})
			return
		}
	}
}

// establish commits that this coordinator leads, from a goroutine of its own that stop ends, and only then says so.
func (n *Node) establish() (stop func()) {
	ctx, cancel := context.WithCancel(n.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := n.propose(ctx, &TakeLead{Coordinator: n.o.ID}, 0)
		for err != nil && ctx.Err() == nil && !errors.Is(err, ErrNotLeader) {
			select { // a majority may come back; else raft says that the lead is lost
			case <-time.After(n.o.Heartbeat):
				err = n.propose(ctx, &TakeLead{Coordinator: n.o.ID}, 0)
			case <-ctx.Done():
			}
		}
		if err != nil {
			return
		}
		s := n.State()
		if ctx.Err() != nil || s.Leader != n.o.ID {
			return
		}
		n.set(Leadership{Leads: true, Term: s.LeaderTerm})
		if err := n.reconcile(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ErrNotLeader) {
			n.o.Log("warning: %v", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
