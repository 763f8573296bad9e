package membership

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// WorkerError says that a worker can't take part.
type WorkerError struct{ Worker, Reason string }

func (e *WorkerError) Error() string { return fmt.Sprintf("worker %s: %s", e.Worker, e.Reason) }

// WaitReady waits until n workers have registered, places the experts on them (the first n in order of their ids; others stay
// spare), and waits until all are loaded. Called again, it places anew, with the next epoch, only if a worker of the present
// plan is gone. onProgress (may be nil) is called from here at each change. A worker that is refused or fails ends the wait with
// a *WorkerError (unless Options.Tolerant and the plan does without it), and ctx' end with an error that says what was missing.
func (m *Members) WaitReady(ctx context.Context, n int, onProgress func([]transport.Beat)) (*placement.Plan, error) {
	if n < 1 {
		return nil, fmt.Errorf("wait for %d workers: at least 1", n)
	}
	for placed := false; ; {
		m.mu.Lock()
		changed, beats, failure, status := m.changed, m.workers(), m.table.takeFailure(m.o.Tolerant), m.table.status(n)
		plan, ready := m.table.plan, m.table.allReady()
		want := m.table.candidates(n)
		m.mu.Unlock()
		if onProgress != nil {
			onProgress(beats)
		}
		switch {
		case failure != nil:
			return nil, failure
		case ready:
			return plan, nil
		case want != nil && !placed:
			if err := m.place(want); err != nil {
				return nil, err
			}
			placed = true
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for workers (%s): %w", status, context.Cause(ctx))
		case <-m.ctx.Done():
			return nil, fmt.Errorf("waiting for workers (%s): %w", status, context.Cause(m.ctx))
		}
	}
}

// place computes the next plan over some workers and assigns it.
func (m *Members) place(ids []string) error {
	var err error
	m.change(func() []action {
		var workers []placement.Worker
		for _, id := range ids {
			b := &m.table.members[id].beat
			w := placement.Worker{ID: id, Host: b.Host, Node: b.Node}
			if m.o.InMemory {
				w.Capacity = b.Capacity
			}
			workers = append(workers, w)
		}
		epoch := uint64(1)
		if m.table.plan != nil {
			epoch = m.table.plan.Epoch + 1
		}
		var plan *placement.Plan
		if plan, err = placement.Compute(epoch, m.o.Model, workers, placement.Options{}); err != nil {
			return nil
		}
		m.ledger = newLedger(m.o.Model)
		return m.table.setPlan(plan)
	})
	return err
}

// takeFailure is what ends a wait, once; of several the lowest id's. tolerant passes over workers that the plan doesn't need.
func (t *table) takeFailure(tolerant bool) error {
	for _, id := range slices.Sorted(maps.Keys(t.failures)) {
		why := t.failures[id]
		delete(t.failures, id)
		if tolerant && !t.planned(id) {
			continue
		}
		return &WorkerError{id, why}
	}
	return nil
}

// allReady says whether every worker of the plan holds what it was given.
func (t *table) allReady() bool {
	if t.plan == nil {
		return false
	}
	for id := range t.plan.Owned {
		if m := t.members[id]; m == nil || !t.ready(m) {
			return false
		}
	}
	return true
}

// candidates are the n workers to place on; nil if the plan stands, or if there are too few.
func (t *table) candidates(n int) []string {
	alive := t.alive()
	if t.plan != nil {
		gone := false
		for id := range t.plan.Owned {
			if _, ok := slices.BinarySearch(alive, id); !ok {
				gone = true
			}
		}
		if !gone {
			return nil
		}
	}
	if len(alive) < n {
		return nil
	}
	return alive[:n]
}

// status says what a wait waits for.
func (t *table) status(n int) string {
	alive := t.alive()
	if t.plan == nil || len(alive) < n {
		text := fmt.Sprintf("%d of %d are registered", len(alive), n)
		if len(alive) > 0 {
			text += ": " + strings.Join(alive, ", ")
		}
		for _, id := range slices.Sorted(maps.Keys(t.foreign)) {
			text += fmt.Sprintf("; %s serves another coordinator", id)
		}
		return text
	}
	var late []string
	for _, id := range slices.Sorted(maps.Keys(t.plan.Owned)) {
		if err := t.usable(id); err != nil {
			late = append(late, id+" is "+err.Error())
		}
	}
	return strings.Join(late, "; ")
}
