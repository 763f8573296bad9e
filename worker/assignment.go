package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
)

// loading is a load in progress.
type loading struct {
	layers []transport.LayerParts
	cancel context.CancelFunc
	done   chan struct{}
}

func refuse(code transport.ErrorCode, format string, args ...any) error {
	return &transport.RemoteError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Assign takes an assignment and loads it in the background (transport.Handler).
func (p *process) Assign(_ context.Context, m *transport.Assign) error {
	if why := m.Identity.Mismatch("coordinator", p.identity, "worker "+p.o.ID); why != "" {
		return refuse(transport.CodeRefused, "%s", why)
	}
	plan, err := p.plan(m.Layers)
	if err != nil {
		return refuse(transport.CodeMalformed, "assignment: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == transport.StateDraining {
		return refuse(transport.CodeNotReady, "worker %s is draining", p.o.ID)
	}
	if err := p.supersedes(m); err != nil {
		return err
	}
	p.assigned, p.failure = m, ""
	defer p.wake()
	switch {
	case p.loading != nil && equalLayers(p.loading.layers, m.Layers):
		p.state = transport.StateLoading // begun for a coordinator that has gone, or for an earlier epoch
	case p.loading == nil && p.shards != nil && equalLayers(p.loadedFor, m.Layers):
		p.state, p.lookNow = transport.StateReady, true
	default:
		p.startLoading(plan, m.Layers)
	}
	return nil
}

// supersedes says why an assignment can't replace the present one; callers hold mu.
func (p *process) supersedes(m *transport.Assign) error {
	now := p.assigned
	switch {
	case now == nil:
		return nil
	case m.Term < now.Term:
		return refuse(transport.CodeStaleTerm, "assignment of term %d, worker %s serves term %d", m.Term, p.o.ID, now.Term)
	case m.Coordinator != now.Coordinator && m.Term == now.Term:
		// Two coordinators at once. Were the present one gone, its silence would have freed the worker (checkSilence).
		return refuse(transport.CodeRefused, "worker %s works for coordinator %s; it is free after %v without a word of it",
			p.o.ID, now.Coordinator, transport.SilenceLimit)
	case m.Term == now.Term && m.Epoch < now.Epoch:
		return refuse(transport.CodeWrongEpoch, "assignment of epoch %d, worker %s has epoch %d", m.Epoch, p.o.ID, now.Epoch)
	case m.Term == now.Term && m.Epoch == now.Epoch && !equalLayers(m.Layers, now.Layers):
		return refuse(transport.CodeWrongEpoch, "assignment of epoch %d differs from an earlier one of the same epoch", m.Epoch)
	}
	return nil
}

// startLoading begins a load, after the end of the one in progress; callers hold mu.
func (p *process) startLoading(plan *shard.Plan, layers []transport.LayerParts) {
	ctx, cancel := context.WithCancel(context.Background())
	l, before := &loading{layers: layers, cancel: cancel, done: make(chan struct{})}, p.loading
	if before != nil {
		before.cancel()
	}
	p.loading = l
	p.state, p.ready, p.total = transport.StateLoading, 0, plan.Bytes
	go func() {
		defer close(l.done)
		defer cancel()
		if before != nil {
			<-before.done
		}
		p.mu.Lock()
		previous := p.shards
		p.shards, p.loadedFor = nil, nil
		p.mu.Unlock()
		shards, err := p.load(ctx, plan, previous, func(ready, total int64) { p.progress(l, ready, total) })
		p.loaded(l, shards, err)
	}()
}

// progress notes the bytes that are ready; calls may come late and out of order.
func (p *process) progress(l *loading, ready, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loading == l {
		p.ready, p.total = max(p.ready, ready), total
	}
}

// loaded ends a load.
func (p *process) loaded(l *loading, shards *shard.Shards, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.shards, p.loadedFor = shards, l.layers
	}
	if p.loading != l {
		return // a later one waits for this one's end
	}
	p.loading = nil
	defer p.wake()
	if errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		p.o.Log("warning: worker %s can't load its experts: %v", p.o.ID, err)
	}
	if p.state != transport.StateLoading {
		return // its coordinator has gone, or it drains
	}
	if err != nil {
		p.state, p.failure = transport.StateFailed, err.Error()
		return
	}
	p.state, p.lookNow = transport.StateReady, true
	c := p.store.Counters()
	mebibytes := func(n int64) float64 { return float64(n) / (1 << 20) }
	p.o.Log("worker %s is ready: %d expert parts, %.1f MiB (%.1f packed now, %.1f found packed)", p.o.ID,
		shards.Plan().Count, mebibytes(shards.Plan().Bytes), mebibytes(c.PackedBytes), mebibytes(c.ReusedBytes))
}

// stopLoading cancels the load in progress and waits for its end.
func (p *process) stopLoading() {
	p.mu.Lock()
	l := p.loading
	p.mu.Unlock()
	if l != nil {
		l.cancel()
		<-l.done
	}
}

// checkSilence frees the worker for another coordinator when its own has not been heard for long. Shards stay as they are, so that an
// equal assignment is ready at once, and so does a load in progress.
func (p *process) checkSilence(seconds float64) {
	if seconds < transport.SilenceLimit.Seconds() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.assigned == nil || p.state == transport.StateDraining {
		return
	}
	p.o.Log("worker %s has not heard its coordinator for %.0f s: it is free for another one", p.o.ID, seconds)
	p.assigned, p.failure, p.state = nil, "", transport.StateIdle
}

func (p *process) setDraining() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = transport.StateDraining
}
