package worker

import (
	"context"

	"github.com/moepool/moepool/transport"
)

// Work computes one layer's rows (transport.Handler).
func (p *process) Work(ctx context.Context, w *transport.Work) (*transport.Result, error) {
	p.mu.Lock()
	assigned, shards, loading, state := p.assigned, p.shards, p.loading != nil, p.state
	p.mu.Unlock()
	switch {
	case assigned == nil:
		return nil, refuse(transport.CodeNotReady, "worker %s has no assignment", p.o.ID)
	case w.Term < assigned.Term:
		return nil, refuse(transport.CodeStaleTerm, "work of term %d, worker %s serves term %d", w.Term, p.o.ID, assigned.Term)
	case w.Epoch != assigned.Epoch:
		return nil, refuse(transport.CodeWrongEpoch, "work of epoch %d, worker %s has epoch %d", w.Epoch, p.o.ID, assigned.Epoch)
	case shards == nil || loading:
		return nil, refuse(transport.CodeNotReady, "worker %s is %s", p.o.ID, state)
	}
	if err := shards.Compute(ctx, w, &p.result); err != nil {
		return nil, err
	}
	return &p.result, nil
}

// Refused ends the worker with the coordinator's reason (transport.Handler).
func (p *process) Refused(reason string) { p.end(&RefusedError{Worker: p.o.ID, Reason: reason}) }

// CoordinatorBeat is told each coordinator's beat (transport.Handler).
func (p *process) CoordinatorBeat(*transport.CoordinatorBeat) {}

// Drain ends the worker after its work (transport.Handler).
func (p *process) Drain() { p.end(nil) }
