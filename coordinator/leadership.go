package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nuid"

	"github.com/moepool/moepool/coordinator/dispatch"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/membership"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// ErrNotLeading is what a *NotLeadingError is.
var ErrNotLeading = errors.New("this coordinator does not lead")

// NotLeadingError ends the requests of a coordinator that doesn't lead, or no longer does. They can be sent again, to the one that does.
type NotLeadingError struct {
	Leader string // id of the coordinator that leads; "": none that this one knows of
}

func (e *NotLeadingError) Error() string {
	if e.Leader == "" {
		return "this coordinator does not lead, and it knows of none that does at the moment; send the request again"
	}
	return fmt.Sprintf("this coordinator does not lead, coordinator %s does; send the request again", e.Leader)
}

// Is makes errors.Is(err, ErrNotLeading) true.
func (e *NotLeadingError) Is(target error) bool { return target == ErrNotLeading }

// leadership is what a coordinator leads with.
type leadership struct {
	term     uint64                                                // higher than any former leader's
	initial  *placement.Plan                                       // what a former leader committed; nil: nothing
	commit   func(ctx context.Context, plan *placement.Plan) error // asked before a plan becomes active; may be nil
	draining []string                                              // workers that were asked to leave under a former leader
}

// office is what exists only while a coordinator leads.
type office struct {
	ctx        context.Context // ends with the leadership, with why as its cause
	leave      context.CancelCauseFunc
	members    *membership.Members
	dispatcher *dispatch.Dispatcher
	routing    observer
}

// take begins to follow the workers; waitReady waits for them, and Resign ends it, after an error of waitReady too.
func (c *Coordinator) take(ctx context.Context, l leadership) (err error) {
	o, policies := &c.options, c.policies.Load()
	held := &office{}
	held.ctx, held.leave = context.WithCancelCause(ctx)
	defer func() {
		if err != nil {
			held.close(err)
		}
	}()
	held.members, err = membership.New(held.ctx, membership.Options{
		Requester: c.requester, Instance: nuid.Next(), Identity: c.Identity, InMemory: o.InMemory, Tolerant: o.Tolerant, Lane: o.Lane,
		Model: PlacementModel(c.Checkpoint.Config(), o.ExpertFormat, o.Parts), Term: l.term, Log: o.Log,
		Initial: l.initial, Commit: l.commit, Draining: l.draining, Placement: placement.Options{Replicas: policies.replicas},
	})
	if err != nil {
		return err
	}
	held.dispatcher, err = dispatch.New(dispatch.Options{
		Requester: c.requester, Members: held.members, Parts: o.Parts, Observe: o.ObserveWorker, Log: o.Log,
		OnMissing: policies.onMissing, Missing: policies.missing, Normalize: c.Checkpoint.Config().NormalizeTopK,
		Snapshot: func() engine.Residency { return held.members.Residency() },
	})
	if err != nil {
		return err
	}
	if !c.office.CompareAndSwap(nil, held) {
		return errors.New("this coordinator leads already")
	}
	return nil
}

func (c *Coordinator) waitReady(ctx context.Context) error {
	held := c.office.Load()
	if held == nil {
		return c.notLeading()
	}
	_, err := held.members.WaitReady(ctx, c.options.Workers, func(beats []transport.Beat) { c.progress(Progress{Workers: beats}) })
	return err
}

// Resign ends the leadership: requests in progress end with cause, workers are no longer followed. It returns when all of it has ended; another
// one may begin. Without a leadership it does nothing.
func (c *Coordinator) Resign(cause error) {
	held := c.office.Swap(nil)
	if held == nil {
		return
	}
	held.leave(cause)
	c.turn <- struct{}{} // the request in progress has ended
	held.close(cause)
	<-c.turn
}

func (h *office) close(cause error) {
	h.leave(cause)
	if h.dispatcher != nil {
		h.dispatcher.Close()
	}
	if h.members != nil {
		h.members.Close()
	}
}

// Members are the workers that this coordinator leads; nil while it doesn't lead.
func (c *Coordinator) Members() *membership.Members {
	if held := c.office.Load(); held != nil {
		return held.members
	}
	return nil
}

// Dispatcher sends their work; nil while the coordinator doesn't lead.
func (c *Coordinator) Dispatcher() *dispatch.Dispatcher {
	if held := c.office.Load(); held != nil {
		return held.dispatcher
	}
	return nil
}

// Ready says whether requests are answered here, since the coordinator leads and every expert part has a worker that can be used, or
// whether it stands by for another one that leads its group.
func (c *Coordinator) Ready() bool {
	if members := c.Members(); members != nil {
		return members.Covered()
	}
	node := c.group.Load()
	return node != nil && !node.Leadership().Leads && node.Leader() != ""
}

// leading gives a context that also ends with the leadership, whose cause it then has; stop must be called.
func (c *Coordinator) leading(ctx context.Context) (_ context.Context, stop func(), err error) {
	held := c.office.Load()
	if held == nil {
		return nil, nil, c.notLeading()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watching := context.AfterFunc(held.ctx, func() { cancel(context.Cause(held.ctx)) })
	return ctx, func() {
		watching()
		cancel(nil)
	}, nil
}

// leaderExperts are the experts of the workers that the coordinator leads at present.
type leaderExperts struct{ coordinator *Coordinator }

func (e leaderExperts) Compute(ctx context.Context, call *engine.ExpertCall) (engine.ExpertStats, error) {
	held := e.coordinator.office.Load()
	if held == nil {
		return engine.ExpertStats{}, e.coordinator.notLeading()
	}
	stats, err := held.dispatcher.Compute(ctx, call)
	if err == nil {
		held.routing.observe(held.members, call, e.coordinator.Checkpoint.Config().Experts)
	}
	return stats, err
}

func (e leaderExperts) Snapshot() engine.Residency {
	if d := e.coordinator.Dispatcher(); d != nil {
		return d.Snapshot()
	}
	return ResidencyOverride{} // nothing is resident; the step ends with NotLeadingError
}
