package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
)

// ParsePeers reads "a=host:port,b=host:port,c=host:port/nonvoter".
func ParsePeers(s string) ([]Peer, error) {
	var peers []Peer
	for _, field := range strings.Split(s, ",") {
		id, address, found := strings.Cut(strings.TrimSpace(field), "=")
		if !found {
			return nil, fmt.Errorf("%q: ID=HOST:PORT is needed for each coordinator, such as a=10.0.0.1:7000,b=10.0.0.2:7000,c=10.0.0.3:7000", field)
		}
		p := Peer{ID: id}
		p.Address, p.NonVoter = strings.CutSuffix(address, nonVoterMark)
		peers = append(peers, p)
	}
	return peers, nil
}

// configuration is what a new group begins with.
func (o *Options) configuration() raft.Configuration {
	var c raft.Configuration
	for _, p := range o.Peers {
		server := raft.Server{ID: raft.ServerID(p.ID), Address: raft.ServerAddress(p.Address), Suffrage: raft.Voter}
		if p.NonVoter {
			server.Suffrage = raft.Nonvoter
		}
		c.Servers = append(c.Servers, server)
	}
	return c
}

// Peers are the group's coordinators as raft has them at present, in order of ids.
func (n *Node) Peers() ([]Peer, error) {
	future := n.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return nil, n.explain(err)
	}
	var peers []Peer
	for _, s := range future.Configuration().Servers {
		peers = append(peers, Peer{ID: string(s.ID), Address: string(s.Address), NonVoter: s.Suffrage != raft.Voter})
	}
	slices.SortFunc(peers, func(a, b Peer) int { return strings.Compare(a.ID, b.ID) })
	return peers, nil
}

// reconcile brings the group to what this leader's options say: it adds peers, changes addresses, gives votes, and takes out those of
// Options.Remove. It takes nobody out that is only missing from Peers, and no vote away.
func (n *Node) reconcile(ctx context.Context) error {
	present, err := n.Peers()
	if err != nil {
		return err
	}
	held := map[string]Peer{}
	for _, p := range present {
		held[p.ID] = p
	}
	for _, want := range n.o.Peers {
		have, known := held[want.ID]
		delete(held, want.ID)
		if known && have.Address == want.Address && (have.NonVoter == want.NonVoter || want.NonVoter) {
			continue
		}
		err := n.await(ctx, func() error {
			if want.NonVoter {
				return n.raft.AddNonvoter(raft.ServerID(want.ID), raft.ServerAddress(want.Address), 0, applyLimit).Error()
			}
			return n.raft.AddVoter(raft.ServerID(want.ID), raft.ServerAddress(want.Address), 0, applyLimit).Error()
		})
		if err != nil {
			return fmt.Errorf("add coordinator %s: %w", want, err)
		}
		n.o.Log("the group has coordinator %s now", want)
	}
	for id, p := range held {
		if !slices.Contains(n.o.Remove, id) {
			n.o.Log("warning: the group has coordinator %s, which is not among --raft-peers here; it stays (--raft-remove %s takes it out)", p, id)
			continue
		}
		if err := n.await(ctx, func() error { return n.raft.RemoveServer(raft.ServerID(id), 0, applyLimit).Error() }); err != nil {
			return fmt.Errorf("take coordinator %s out of the group: %w", p, err)
		}
		n.o.Log("coordinator %s is no longer one of the group", p)
	}
	return nil
}
