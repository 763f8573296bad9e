package worker

import (
	"context"
	"errors"
	"time"

	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/worker/shard"
)

// warm brings experts into memory before the worker is ready, as far as --warm says and there is room. It returns ctx's error only: what
// can't be brought in now is read when it is needed.
func (p *process) warm(ctx context.Context, l *loading, shards *shard.Shards) error {
	order := p.warmOrder(shards.Plan())
	if len(order) == 0 {
		return nil
	}
	begin := time.Now()
	err := shards.Warm(ctx, order, func(done, total int64) { p.warmed(l, done, total) })
	p.mu.Lock()
	brought := p.warmDone
	p.mu.Unlock()
	switch took := time.Since(begin); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		p.seat.note("--warm %s ended early, after %s: %v", p.o.Residency.Warm, bytesize.Text(brought), err)
	case brought > 0:
		p.o.Log("worker %s is warm: %s of experts are in memory after %.1f s", p.o.ID, bytesize.Text(brought), took.Seconds())
	}
	return nil
}

// warmOrder lists the expert parts of a plan that are to be in memory, the most important first.
func (p *process) warmOrder(plan *shard.Plan) (order []residency.Part) {
	if p.o.Residency.Warm == WarmNone {
		return nil
	}
	rest := map[residency.Part]bool{}
	for _, l := range plan.Layers {
		for _, id := range l.Owned {
			rest[residency.Part{Layer: l.Number, ID: id}] = true
		}
	}
	hottest, _ := p.popularity.hottest()
	for _, h := range hottest {
		if rest[h.Part] {
			order = append(order, h.Part)
			delete(rest, h.Part)
		}
	}
	if p.o.Residency.Warm == WarmHottest {
		if len(order) == 0 {
			p.o.Log("worker %s knows of no earlier run: --warm %s brings nothing into memory yet", p.o.ID, WarmHottest)
		}
		return order
	}
	for _, l := range plan.Layers {
		for _, id := range l.Owned {
			if part := (residency.Part{Layer: l.Number, ID: id}); rest[part] {
				order = append(order, part)
			}
		}
	}
	return order
}

// warmed notes how far a warm-up is; calls may come late and out of order.
func (p *process) warmed(l *loading, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loading == l && !l.unwanted {
		p.warmDone, p.warmTotal = max(p.warmDone, done), total
	}
}

// profileInterval is how often the profile is saved.
const profileInterval = time.Minute

// loadProfile reads what earlier runs needed most.
func (h *holding) loadProfile() {
	dir := h.store.Dir()
	if dir == "" {
		return
	}
	config := h.checkpoint.Config()
	heats, err := readProfile(dir, h.identity.ModelDigest, h.o.Parts, len(config.Layers), config.Experts*h.o.Parts)
	switch {
	case errors.Is(err, errNoProfile):
	case err != nil:
		h.seat.note("what earlier runs needed most is not known: %v", err)
	default:
		h.popularity.seed(heats)
	}
}

// saveProfile writes what was needed most, if that has changed.
func (p *process) saveProfile() error {
	dir := p.store.Dir()
	if dir == "" {
		return nil
	}
	hottest, changed := p.popularity.hottest()
	if !changed {
		return nil
	}
	err := writeProfile(dir, p.identity.ModelDigest, p.o.Parts, hottest)
	if err != nil {
		p.popularity.touch()
	}
	return err
}

// keepProfile saves the profile at intervals, and when it is told to end: the returned function waits for that. It is not done by live, since a
// busy disk may take longer than a beat may be late.
func (p *process) keepProfile() (end func() error) {
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(profileInterval)
		defer tick.Stop()
		said := false
		for {
			select {
			case <-tick.C:
				if err := p.saveProfile(); err != nil && !said {
					said = true
					p.seat.note("what is needed most can't be saved: %v", err)
				}
			case <-stop:
				ended <- p.saveProfile()
				return
			}
		}
	}()
	return func() error {
		close(stop)
		return <-ended
	}
}
