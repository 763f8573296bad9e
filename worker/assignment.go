package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
)

func refuse(code transport.ErrorCode, format string, args ...any) error {
	return &transport.RemoteError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Assign takes an assignment and prepares it in the background, beside what is served (transport.Handler).
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
	if err := p.supersedes(m); err != nil {
		return err
	}
	if p.leaving && !p.epochs.holds(m.Layers) {
		return refuse(transport.CodeNotReady, "worker %s is draining", p.o.ID)
	}
	defer p.wake()
	load := p.epochs.assign(m)
	if load {
		p.wanted = plan
		if p.loading == nil || p.loading.unwanted || !equalLayers(p.loading.layers, m.Layers) { // else it was begun for a coordinator that has gone, or an earlier epoch
			p.ready, p.total = 0, plan.Bytes
		}
	} else {
		p.ready, p.total, p.lookNow = plan.Bytes, plan.Bytes, true
	}
	if p.loading != nil && !equalLayers(p.loading.layers, m.Layers) {
		p.loading.unwanted = true
		p.loading.cancel()
	}
	p.tend()
	return nil
}

// supersedes says why an assignment can't replace the present one; callers hold mu.
func (p *process) supersedes(m *transport.Assign) error {
	now := p.epochs.assigned
	switch {
	case now == nil:
		return nil
	case m.Term < now.Term:
		return refuse(transport.CodeStaleTerm, "assignment of term %d, worker %s serves term %d", m.Term, p.o.ID, now.Term)
	case m.Coordinator != now.Coordinator && m.Term == now.Term:
		// Two coordinators at once. Were the present one gone, its silence would have freed the worker (checkSilence).
		return refuse(transport.CodeRefused, "worker %s works for coordinator %s; it is free after %v without a word of it",
			p.o.ID, now.Coordinator, takeoverSilence)
	case m.Term == now.Term && m.Epoch < now.Epoch:
		return refuse(transport.CodeWrongEpoch, "assignment of epoch %d, worker %s has epoch %d", m.Epoch, p.o.ID, now.Epoch)
	case m.Term == now.Term && m.Epoch == now.Epoch && !equalLayers(m.Layers, now.Layers):
		return refuse(transport.CodeWrongEpoch, "assignment of epoch %d differs from an earlier one of the same epoch", m.Epoch)
	}
	return nil
}

// loading is a load in progress.
type loading struct {
	layers   []transport.LayerParts
	cancel   context.CancelFunc
	unwanted bool // cancelled
}

// tend starts the goroutine that loads and gives back, unless it runs or has nothing to do; callers hold mu. It alone changes what the
// holder holds.
func (p *process) tend() {
	if p.tended != nil || p.ending || !p.untended() {
		return
	}
	ended := make(chan struct{})
	p.tended = ended
	go func() {
		defer close(ended)
		p.mu.Lock()
		defer p.mu.Unlock()
		for !p.ending && p.untended() {
			if p.epochs.state == transport.StateLoading && !p.leaving {
				p.loadWanted()
			} else {
				p.giveBack()
			}
		}
		p.tended = nil
	}()
}

// untended says whether there is something to load or to give back; callers hold mu.
func (p *process) untended() bool {
	return p.epochs.state == transport.StateLoading && !p.leaving || p.epochs.dropped
}

// loadWanted loads what is wanted now; callers hold mu, which is not held while it loads.
func (p *process) loadWanted() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	plan, l := p.wanted, &loading{layers: p.epochs.assigned.Layers, cancel: cancel}
	p.loading, p.warmDone, p.warmTotal = l, 0, 0
	keep := p.epochs.keep()
	p.mu.Unlock()
	shards, err := p.load(ctx, shard.Loading{
		Plan: plan, Keep: keep, Progress: func(ready, total int64) { p.progress(l, ready, total) },
		Memory: func() shard.Memory { return p.seat.memory(p.o.PerNode) },
	})
	if err == nil {
		err = p.warm(ctx, l, shards)
	}
	p.mu.Lock()
	p.loading = nil
	if errors.Is(err, context.Canceled) {
		p.epochs.dropped = true // what was packed is given back, unless the next load wants it
		return
	}
	taken := p.epochs.loaded(l.layers, shards, err)
	if err == nil && !taken {
		p.epochs.dropped = true
	}
	defer p.wake()
	switch served := p.epochs.serves(); {
	case err != nil && len(served) > 0:
		p.o.Log("warning: worker %s can't load its experts of epoch %d, it goes on serving %v: %v", p.o.ID, p.epochs.assigned.Epoch, served, err)
	case err != nil:
		p.o.Log("warning: worker %s can't load its experts: %v", p.o.ID, err)
	case taken && len(served) > 0:
		p.lookNow = true
		c := p.store.Counters()
		p.o.Log("worker %s is ready: epoch %d, %d expert parts, %s (since its start %s packed, %s found packed)", p.o.ID,
			p.epochs.assigned.Epoch, plan.Count, bytesize.Text(plan.Bytes), bytesize.Text(c.PackedBytes), bytesize.Text(c.ReusedBytes))
	}
}

// load loads; files of the checkpoint that are not on this host are fetched when the first of their experts is to be packed. What was
// packed before stays, so each file costs another look at what is there.
func (p *process) load(ctx context.Context, o shard.Loading) (*shard.Shards, error) {
	for {
		shards, err := p.holder.Load(ctx, o)
		absent := (*checkpoint.AbsentError)(nil)
		if p.o.Fetch == nil || !errors.As(err, &absent) {
			return shards, err
		}
		if err := p.o.Fetch(ctx, absent.File); err != nil {
			return nil, err
		}
	}
}

// giveBack gives back what is held for nobody; callers hold mu, which is not held meanwhile.
func (p *process) giveBack() {
	keep := p.epochs.keep()
	p.mu.Unlock()
	err := p.holder.GiveBack(keep...)
	p.mu.Lock()
	if err != nil {
		p.o.Log("warning: worker %s can't give back experts that it doesn't own any more: %v", p.o.ID, err)
	}
}

// progress notes the bytes that are ready; calls may come late and out of order.
func (p *process) progress(l *loading, ready, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loading == l && !l.unwanted {
		p.ready, p.total = max(p.ready, ready), total
	}
}

// stopLoading ends the goroutine of tend and waits for its end.
func (p *process) stopLoading() {
	p.mu.Lock()
	p.ending = true
	if p.loading != nil {
		p.loading.cancel()
	}
	ended := p.tended
	p.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// CoordinatorBeat is told each coordinator's beat: which epoch is active (transport.Handler).
func (p *process) CoordinatorBeat(b *transport.CoordinatorBeat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epochs.beat(b)
	if a := p.epochs.assigned; a != nil && b.Term >= a.Term {
		p.rival = b.Instance != a.Coordinator
	}
	if p.epochs.dropped {
		p.tend()
		p.wake()
	}
	if a := p.epochs.assigned; a != nil && b.Term > a.Term {
		p.wake() // a new leader, which knows of this worker from its next beat
	}
}

// takeoverSilence is for how long a worker that hears another coordinator waits for a word of its own; without another one there is no hurry,
// and it waits for transport.SilenceLimit.
const takeoverSilence = 3 * transport.ProgressInterval

// checkSilence frees the worker for another coordinator when its own has not been heard for long. Shards stay as they are, so that an
// equal assignment is ready at once, and so does a load in progress.
func (p *process) checkSilence(seconds float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := transport.SilenceLimit
	if p.rival {
		limit = takeoverSilence
	}
	if seconds < limit.Seconds() || p.epochs.assigned == nil {
		return
	}
	p.rival = false
	p.o.Log("worker %s has not heard its coordinator for %.0f s: it is free for another one", p.o.ID, seconds)
	p.epochs.free()
}
