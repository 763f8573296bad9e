package worker

import (
	"context"

	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
)

// Work computes one layer's rows (transport.Handler).
func (p *process) Work(ctx context.Context, w *transport.Work) (*transport.Result, error) {
	shards, err := p.forWork(w)
	if err != nil {
		return nil, err
	}
	if err := shards.Compute(ctx, w, &p.result); err != nil {
		return nil, err
	}
	p.popularity.note(w.Layer, p.result.Parts)
	return &p.result, nil
}

// forWork gives the shards of a work's epoch.
func (p *process) forWork(w *transport.Work) (*shard.Shards, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	assigned := p.epochs.assigned
	switch {
	case assigned == nil:
		return nil, refuse(transport.CodeNotReady, "worker %s has no assignment", p.o.ID)
	case w.Term < assigned.Term:
		return nil, refuse(transport.CodeStaleTerm, "work of term %d, worker %s serves term %d", w.Term, p.o.ID, assigned.Term)
	}
	shards, ok := p.epochs.serving(w.Epoch)
	switch {
	case ok:
		return shards, nil
	case w.Epoch == assigned.Epoch:
		return nil, refuse(transport.CodeNotReady, "worker %s is %s", p.o.ID, p.epochs.state)
	}
	return nil, refuse(transport.CodeWrongEpoch, "work of epoch %d, worker %s serves %v and has epoch %d", w.Epoch, p.o.ID, p.epochs.serves(), assigned.Epoch)
}

// Refused ends the worker with the coordinator's reason (transport.Handler).
func (p *process) Refused(reason string) { p.end(&RefusedError{Worker: p.o.ID, Reason: reason}) }

// Drain ends the worker after its work (transport.Handler).
func (p *process) Drain() { p.end(nil) }
