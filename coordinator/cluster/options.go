package cluster

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/moepool/moepool/transport"
)

// Peer is one coordinator of a group.
type Peer struct {
	ID       string
	Address  string // host:port at which the others reach it
	NonVoter bool   // it follows, but neither votes nor leads
}

// Options describe one coordinator of a group.
type Options struct {
	Dir    string // its log and snapshots; kept for ever, and for this id only
	ID     string // 1 to 64 of A-Z a-z 0-9 _ -
	Listen string // host:port; "": this one's address in Peers
	// Peers are all coordinators of the group, this one among them. A new group begins with these; later, a leader adds those that are
	// missing and takes over addresses that have changed.
	Peers []Peer
	// Join keeps a new folder from beginning a group: this coordinator waits until the leader of an existing group, which has it among its
	// Peers, adds it.
	Join bool
	// Remove are ids that this coordinator takes out of the group when it leads.
	Remove []string
	TLS    TLSFiles

	// Heartbeat is how long a leader may be silent before others want to lead, which they do after one to two of it; 0 is 500 ms.
	// A leader that reaches no majority for half of it ceases to lead.
	Heartbeat time.Duration
	// SnapshotEvery is after how many entries the log is replaced by a snapshot of the state; 0 is 512.
	SnapshotEvery uint64
	// SnapshotInterval is how often that is looked at; 0 is 30 s.
	SnapshotInterval time.Duration

	Log func(format string, args ...any) // may be nil

	dial dialer // nil: a net.Dialer
}

const (
	defaultHeartbeat        = 500 * time.Millisecond
	defaultSnapshotEvery    = 512
	defaultSnapshotInterval = 30 * time.Second
)

func (o *Options) complete() error {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = defaultSnapshotEvery
	}
	if o.SnapshotInterval == 0 {
		o.SnapshotInterval = defaultSnapshotInterval
	}
	if o.dial == nil {
		o.dial = (&net.Dialer{}).DialContext
	}
	switch {
	case o.Dir == "":
		return errors.New("a folder for the coordinator's log is needed (--raft-dir)")
	case !transport.ValidName(o.ID):
		return fmt.Errorf("--raft-id is %q: valid are 1 to 64 of A-Z a-z 0-9 _ -", o.ID)
	case o.Heartbeat < 10*time.Millisecond:
		return fmt.Errorf("a heartbeat of %s; at least 10ms", o.Heartbeat)
	}
	return o.checkPeers()
}

func (o *Options) checkPeers() error {
	voters := 0
	for i, p := range o.Peers {
		if !transport.ValidName(p.ID) {
			return fmt.Errorf("--raft-peers: %q is no id: valid are 1 to 64 of A-Z a-z 0-9 _ -", p.ID)
		}
		host, port, err := net.SplitHostPort(p.Address)
		if err != nil || host == "" || port == "" || port == "0" {
			return fmt.Errorf("--raft-peers: the address of %s is %q; host:port is needed, as the others reach it", p.ID, p.Address)
		}
		for _, other := range o.Peers[:i] {
			if other.ID == p.ID || other.Address == p.Address {
				return fmt.Errorf("--raft-peers: %s and %s have the same id or address", other, p)
			}
		}
		if !p.NonVoter {
			voters++
		}
	}
	own, found := o.self()
	if !found {
		return fmt.Errorf("--raft-peers has no %s, which is this coordinator (--raft-id)", o.ID)
	}
	if voters == 0 {
		return errors.New("--raft-peers: at least one coordinator must vote")
	}
	if o.Listen == "" {
		o.Listen = own.Address
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return fmt.Errorf("--raft-listen is %q; host:port is needed", o.Listen)
	}
	for _, id := range o.Remove {
		if slices.ContainsFunc(o.Peers, func(p Peer) bool { return p.ID == id }) {
			return fmt.Errorf("--raft-remove %s: it is one of --raft-peers, too", id)
		}
	}
	return nil
}

func (o *Options) self() (Peer, bool) {
	i := slices.IndexFunc(o.Peers, func(p Peer) bool { return p.ID == o.ID })
	if i < 0 {
		return Peer{}, false
	}
	return o.Peers[i], true
}

// nonVoterMark follows the address of a peer that has no vote.
const nonVoterMark = "/nonvoter"

func (p Peer) String() string {
	if p.NonVoter {
		return p.ID + "=" + p.Address + nonVoterMark
	}
	return p.ID + "=" + p.Address
}
