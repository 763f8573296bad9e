package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/moepool/moepool/coordinator/cluster"
	"github.com/moepool/moepool/coordinator/membership"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// GroupOptions are what a coordinator of a group serves with.
type GroupOptions struct {
	// Settings are the values of policy flags that were given to this coordinator: they become the group's when it leads.
	Settings map[string]string
	// Front is called when this coordinator begins to lead.
	Front func(term uint64) (Front, error)
}

// Front is what users see of a leader: from its beginning they are told how things are.
type Front interface {
	Ready() error // the workers are: requests are answered from now on
	Stop()
}

const (
	retryPause     = time.Second      // before a lead that failed is tried again
	transferLimit  = 10 * time.Second // of giving the lead away: an election takes milliseconds, unless the others' machines or disks are busy
	healthInterval = time.Second
	healthLimit    = 3  // intervals in a row without an answer of NATS, after which another one shall lead
	healthPatience = 12 // the same if NATS has not answered in this term: it is probably down for all
)

// Serve leads whenever the node of this coordinator does, until ctx ends, the node fails, or the group serves something else than this
// coordinator has; then the lead is given away. Prepare comes before, and the node is the caller's to close.
func (c *Coordinator) Serve(ctx context.Context, node *cluster.Node, o GroupOptions) error {
	c.group.Store(node)
	look := time.NewTicker(healthInterval)
	defer look.Stop()
	for {
		changed, lead := node.Changed(), node.Leadership()
		if lead.Leads {
			if err := c.serveTerm(ctx, node, lead, o); err != nil {
				return err
			}
			continue
		}
		if difference := c.differs(node.State()); difference != "" {
			return fmt.Errorf("%w: %s", errUnfit, difference)
		}
		select {
		case <-changed:
		case <-look.C:
		case <-node.Failed():
			return node.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// differs says in what this coordinator's model is not the group's, "" if it is, or if the group has none yet.
func (c *Coordinator) differs(s *cluster.State) string {
	if s.Manifest == (transport.Identity{}) {
		return ""
	}
	return s.Manifest.Mismatch("the group", c.Identity, "this coordinator")
}

// serveTerm leads for one term. It returns nil when that is over, and an error if this coordinator must not lead again.
func (c *Coordinator) serveTerm(parent context.Context, node *cluster.Node, lead cluster.Leadership, o GroupOptions) error {
	// Not parent's child: what is in progress when the process is told to end shall hear who leads then.
	ctx, end := context.WithCancelCause(context.WithoutCancel(parent))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watchTerm(ctx, parent, node, lead, end)
	}()
	c.options.log("leads the group, in term %d", lead.Term)
	err := c.leadTerm(ctx, node, lead, o)
	for err != nil && ctx.Err() == nil && !errors.Is(err, errUnfit) {
		c.options.log("warning: this coordinator leads and can't serve: %v", err)
		select {
		case <-time.After(retryPause):
			err = c.leadTerm(ctx, node, lead, o)
		case <-ctx.Done():
		}
	}
	unfit := errors.Is(err, errUnfit) && ctx.Err() == nil
	if unfit {
		c.giveAway(node)
	}
	end(&NotLeadingError{Leader: node.Leader()})
	<-watched
	if unfit {
		return err
	}
	if node.Leadership() == lead { // it could not be given away: this is the end of the process, or NATS is out of reach
		if parent.Err() != nil {
			return context.Cause(parent)
		}
	}
	c.options.log("leads no more: %v", context.Cause(ctx))
	return nil
}

// errUnfit is wrapped by errors that leading again can't mend.
var errUnfit = errors.New("this coordinator can't be one of the group, which serves something else")

// leadTerm leads until ctx ends.
func (c *Coordinator) leadTerm(ctx context.Context, node *cluster.Node, lead cluster.Leadership, o GroupOptions) error {
	if err := node.Apply(ctx, &cluster.SetManifest{Manifest: c.Identity}); err != nil {
		var refused *cluster.RefusedError
		if errors.As(err, &refused) {
			return fmt.Errorf("%w: %s", errUnfit, refused.Reason)
		}
		return err
	}
	if changed := changedSettings(node.State().Settings, o.Settings); len(changed) > 0 {
		if err := node.Apply(ctx, &cluster.ChangeSettings{Settings: changed}); err != nil {
			return err
		}
		var text []string
		for _, name := range slices.Sorted(maps.Keys(changed)) {
			text = append(text, fmt.Sprintf("--%s %v", name, changed[name]))
		}
		c.options.log("the group's policies are changed: %s", strings.Join(text, ", "))
	}
	if err := c.adopt(node.State().Settings); err != nil {
		return err
	}
	defer func() { c.Resign(&NotLeadingError{Leader: node.Leader()}) }()
	state := node.State()
	err := c.take(ctx, leadership{
		term: lead.Term, initial: state.Plan, draining: drained(state),
		commit: func(ctx context.Context, plan *placement.Plan) error { return c.commit(ctx, node, plan) },
	})
	if err != nil {
		return err
	}
	front, err := o.Front(lead.Term)
	if err != nil {
		return err
	}
	defer front.Stop()
	if err := c.waitReady(ctx); err != nil {
		return err
	}
	if err := front.Ready(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// changedSettings are the given ones that the group has not, or has otherwise.
func changedSettings(held, given map[string]string) map[string]string {
	changed := map[string]string{}
	for name, value := range given {
		if was, ok := held[name]; !ok || was != value {
			changed[name] = value
		}
	}
	return changed
}

// watchTerm ends a term's context when the node leads it no more. It gives the lead away when the process shall end, or can't reach NATS.
func (c *Coordinator) watchTerm(ctx, parent context.Context, node *cluster.Node, lead cluster.Leadership, end context.CancelCauseFunc) {
	health := time.NewTicker(healthInterval)
	defer health.Stop()
	silent, answered, told := 0, false, parent.Done()
	for {
		changed := node.Changed()
		if node.Leadership() != lead {
			end(&NotLeadingError{Leader: node.Leader()})
			return
		}
		select {
		case <-changed:
		case <-told:
			told = nil
			if err := c.giveAway(node); err != nil {
				end(&NotLeadingError{})
				return
			}
		case <-health.C:
			if c.reachable(ctx) {
				silent, answered = 0, true
			} else if silent++; silent >= healthLimit && answered || silent >= healthPatience {
				c.options.log("warning: NATS has not answered for %d s: another coordinator shall lead", silent)
				silent = 0
				_ = c.giveAway(node) // said there; tried again
			}
		case <-node.Failed():
			end(node.Err())
			return
		case <-ctx.Done():
			return
		}
	}
}

// giveAway gives the lead to another coordinator.
func (c *Coordinator) giveAway(node *cluster.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), transferLimit)
	defer cancel()
	err := node.Transfer(ctx)
	if err != nil {
		c.options.log("the lead could not be given to another coordinator: %v", err)
	}
	return err
}

// reachable says whether NATS answers.
func (c *Coordinator) reachable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, healthInterval)
	defer cancel()
	return c.Conn.Flush(ctx) == nil || ctx.Err() == context.Canceled
}

// commit makes a plan the group's before it becomes active: a coordinator that leads later begins with it.
func (c *Coordinator) commit(ctx context.Context, node *cluster.Node, plan *placement.Plan) error {
	state := node.State()
	for _, command := range planCommands(state, c.Members(), plan) {
		err := node.Apply(ctx, command)
		var refused *cluster.RefusedError
		switch {
		case errors.As(err, &refused):
			return fmt.Errorf("%s: %w", refused.Reason, membership.ErrPlanRefused)
		case err != nil:
			return err
		}
	}
	return nil
}

// planCommands are what a new plan brings into the group's state: its workers are admitted; one that has experts again is no longer drained;
// workers that are gone and have no experts are forgotten.
func planCommands(state *cluster.State, members *membership.Members, plan *placement.Plan) []cluster.Command {
	var commands []cluster.Command
	present := map[string]cluster.Worker{}
	if members != nil {
		for _, b := range members.Workers() {
			present[b.Worker] = cluster.Worker{ID: b.Worker, Host: b.Host, Node: b.Node}
		}
	}
	admit := &cluster.AdmitWorkers{}
	for _, id := range slices.Sorted(maps.Keys(plan.Owned)) {
		w, here := present[id]
		known, admitted := state.Workers[id]
		if !here { // lost a moment ago; whether the plan goes on is not decided here
			w = cluster.Worker{ID: id, Host: known.Host, Node: known.Node}
		}
		if !admitted || w != known {
			admit.Workers = append(admit.Workers, w)
		}
		if state.Drained[id] {
			commands = append(commands, &cluster.MarkDrain{Worker: id})
		}
	}
	if len(admit.Workers) > 0 {
		commands = append(commands, admit)
	}
	commands = append(commands, &cluster.CommitPlan{Plan: plan})
	for _, id := range slices.Sorted(maps.Keys(state.Workers)) {
		if _, here := present[id]; !here && plan.Owned[id] == nil {
			commands = append(commands, &cluster.RemoveWorker{Worker: id})
		}
	}
	return commands
}

// Drain moves a worker's experts to the others and then tells it to leave, as Members.Drain; in a group the mark outlives this coordinator.
func (c *Coordinator) Drain(ctx context.Context, worker string) error {
	members, node := c.Members(), c.group.Load()
	if members == nil {
		return c.notLeading()
	}
	if err := members.Drain(worker); err != nil || node == nil {
		return err
	}
	commands := []cluster.Command{&cluster.MarkDrain{Worker: worker, Drained: true}}
	if _, admitted := node.State().Workers[worker]; !admitted {
		for _, b := range members.Workers() {
			if b.Worker == worker {
				admit := &cluster.AdmitWorkers{Workers: []cluster.Worker{{ID: worker, Host: b.Host, Node: b.Node}}}
				commands = append([]cluster.Command{admit}, commands...)
			}
		}
	}
	for _, command := range commands {
		if err := node.Apply(ctx, command); err != nil {
			return fmt.Errorf("worker %s leaves, but a coordinator that leads later would not know: %w", worker, err)
		}
	}
	return nil
}

// notLeading says who leads instead.
func (c *Coordinator) notLeading() error {
	if node := c.group.Load(); node != nil {
		return &NotLeadingError{Leader: node.Leader()}
	}
	return &NotLeadingError{}
}

func drained(s *cluster.State) []string { return slices.Sorted(maps.Keys(s.Drained)) }
