package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

var (
	// ErrNotLeader is wrapped by errors of calls that only the leader can answer.
	ErrNotLeader = errors.New("this coordinator does not lead its group")
	// ErrResultUnknown is wrapped by errors of commands that may or may not have been committed. They can be sent again.
	ErrResultUnknown = errors.New("it is not known whether the command was committed")
	// ErrClosed is wrapped by errors of calls after Close, or after the node has failed.
	ErrClosed = errors.New("this coordinator's end of the group is closed")
)

// Apply commits a command and returns when it has been applied here, ctx ends, or 10 s have passed. It is valid in the term that this
// coordinator leads only: if it leads another one when the command comes to the log, the command is refused. Errors are *RefusedError, and
// ones that wrap ErrStaleTerm, ErrNotLeader, ErrResultUnknown or ErrClosed.
func (n *Node) Apply(ctx context.Context, command Command) error {
	term := n.Term()
	if term == 0 {
		return n.notLeader()
	}
	return n.propose(ctx, command, term)
}

func (n *Node) propose(ctx context.Context, command Command, term uint64) error {
	data, err := Encode(command, term)
	if err != nil {
		return err
	}
	return n.await(ctx, func() error {
		future := n.raft.Apply(data, applyLimit)
		if err := future.Error(); err != nil {
			return err
		}
		if refused, ok := future.Response().(error); ok {
			return refused
		}
		return nil
	})
}

// Verify asks a majority whether this coordinator still leads: nil says that State has all that was committed before the call. It writes an
// empty entry to the log. raft's VerifyLeader writes none, but takes answers to heartbeats that were sent before the call: a coordinator that
// was stopped and goes on finds such answers waiting, and would believe that it leads still.
func (n *Node) Verify(ctx context.Context) error {
	if n.Term() == 0 {
		return n.notLeader()
	}
	return n.await(ctx, func() error { return n.raft.Barrier(applyLimit).Error() })
}

// Transfer gives the lead to the voter that is furthest, and does nothing if this coordinator doesn't lead. It tries until ctx ends: the other
// one may be busy.
func (n *Node) Transfer(ctx context.Context) error {
	peers, err := n.Peers()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(peers, func(p Peer) bool { return p.ID != n.o.ID && !p.NonVoter }) {
		return errors.New("there is no other coordinator that votes")
	}
	for n.raft.State() == raft.Leader {
		if err = n.await(ctx, func() error { return n.raft.LeadershipTransfer().Error() }); err == nil {
			return nil
		}
		select {
		case <-time.After(n.o.Heartbeat / 2):
		case <-ctx.Done():
			return err
		}
	}
	return nil
}

// await runs a call of raft, which knows no contexts, from a goroutine of its own, and leaves it when ctx ends or applyLimit has passed. Raft
// answers every call in the end, for a leader that reaches no majority ceases to lead; but only until it is shut down (see calls).
func (n *Node) await(ctx context.Context, call func() error) error {
	if !n.calls.begin() {
		return n.explain(raft.ErrRaftShutdown)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, applyLimit, fmt.Errorf("no answer within %s", applyLimit))
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		defer n.calls.done()
		answer <- call()
	}()
	select {
	case err := <-answer:
		return n.explain(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w; %s", ErrResultUnknown, context.Cause(ctx), n.majority())
	}
}

// explain turns raft's errors into this package's.
func (n *Node) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return n.notLeader()
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrAbortedByRestore):
		return fmt.Errorf("%w: %w; %s", ErrResultUnknown, n.notLeader(), n.majority())
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("the command was not taken: %w", n.notLeader())
	case errors.Is(err, raft.ErrRaftShutdown):
		if failure := n.Err(); failure != nil {
			return fmt.Errorf("%w: %w", ErrClosed, failure)
		}
		return ErrClosed
	}
	return err
}

func (n *Node) notLeader() error {
	if leader := n.Leader(); leader != "" && leader != n.o.ID {
		return fmt.Errorf("%w: coordinator %s does", ErrNotLeader, leader)
	}
	return fmt.Errorf("%w, and it knows of none that does: %s", ErrNotLeader, n.majority())
}

// majority says what the group needs.
func (n *Node) majority() string {
	peers, err := n.Peers()
	if err != nil {
		return "the group's members are not known"
	}
	var voters []string
	for _, p := range peers {
		if !p.NonVoter {
			voters = append(voters, p.ID)
		}
	}
	return fmt.Sprintf("%d of its %d voting coordinators (%s) must reach each other", len(voters)/2+1, len(voters), strings.Join(voters, ", "))
}
