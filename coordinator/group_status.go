package coordinator

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/moepool/moepool/coordinator/cluster"
)

// GroupStatus is what a coordinator knows of its group.
type GroupStatus struct {
	Coordinator string            `json:"coordinator"`      // id of this one
	Leader      string            `json:"leader,omitempty"` // "": none that this one knows of
	Term        uint64            `json:"term"`             // of the last leader's lead
	Verified    bool              `json:"verified"`         // this one leads, and a majority has just said so
	Peers       []PeerStatus      `json:"peers"`
	Index       uint64            `json:"index"`   // of the last command
	History     string            `json:"history"` // hash of all commands: the same at the same index everywhere
	Epoch       uint64            `json:"epoch"`   // of the committed placement; 0: none
	Workers     int               `json:"workers"` // admitted ones
	Drained     []string          `json:"drained,omitempty"`
	Policies    map[string]string `json:"policies,omitempty"` // values of flags that are the group's
}

// PeerStatus is one coordinator of the group.
type PeerStatus struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Votes   bool   `json:"votes"`
}

// verifyLimit is how long a leader waits for the majority's word that it still leads.
const verifyLimit = 3 * time.Second

// Group gives the group's status, which a majority is asked for at a leader; nil if this coordinator is not one of a group.
func (c *Coordinator) Group(ctx context.Context) (*GroupStatus, error) {
	node := c.group.Load()
	if node == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, verifyLimit)
	defer cancel()
	verified := node.Verify(ctx) == nil
	peers, err := node.Peers()
	if err != nil {
		return nil, err
	}
	state := node.State()
	s := &GroupStatus{Coordinator: node.ID(), Leader: node.Leader(), Term: state.LeaderTerm, Verified: verified, Index: state.Index,
		History: hex.EncodeToString(state.History[:8]), Epoch: epochOf(state), Workers: len(state.Workers), Drained: drained(state),
		Policies: state.Settings}
	for _, p := range peers {
		s.Peers = append(s.Peers, PeerStatus{ID: p.ID, Address: p.Address, Votes: !p.NonVoter})
	}
	return s, nil
}

func epochOf(s *cluster.State) uint64 {
	if s.Plan == nil {
		return 0
	}
	return s.Plan.Epoch
}

// LeadsTerm is the term that this coordinator leads its group in; 0 while it doesn't lead, or is not one of a group.
func (c *Coordinator) LeadsTerm() uint64 {
	if node := c.group.Load(); node != nil {
		return node.Term()
	}
	return 0
}
