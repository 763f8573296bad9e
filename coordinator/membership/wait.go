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

// WaitReady waits until n workers have registered, which lets the first plan be made (over all that are there by then), and until a plan is
// active all of whose expert parts have an owner that can be used; with a former leader's plan (Options.Initial) it waits only for that.
// onProgress (may be nil) is called from here at each change. A worker that is refused or fails ends the wait with a *WorkerError
// (unless Options.Tolerant and the plans do without it), so does a first plan that is not possible, and ctx' end with an error that says
// what was missing.
func (m *Members) WaitReady(ctx context.Context, n int, onProgress func([]transport.Beat)) (*placement.Plan, error) {
	if n < 1 {
		return nil, fmt.Errorf("wait for %d workers: at least 1", n)
	}
	m.change(func() []action { return m.table.await(n) })
	for {
		m.mu.Lock()
		news, beats, failure, status := m.news, m.workers(), m.table.takeFailure(m.o.Tolerant), m.table.status(n)
		plan, ready := m.table.active, m.table.allCovered()
		m.mu.Unlock()
		if onProgress != nil {
			onProgress(beats)
		}
		switch {
		case failure != nil:
			return nil, failure
		case ready:
			return plan, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for workers (%s): %w", status, context.Cause(ctx))
		case <-m.ctx.Done():
			return nil, fmt.Errorf("waiting for workers (%s): %w", status, context.Cause(m.ctx))
		}
	}
}

// takeFailure is what ends a wait, once; of several the lowest id's. tolerant passes over workers that no plan needs.
func (t *table) takeFailure(tolerant bool) error {
	for _, id := range slices.Sorted(maps.Keys(t.failures)) {
		why := t.failures[id]
		delete(t.failures, id)
		if tolerant && !t.planned(id) {
			continue
		}
		return &WorkerError{id, why}
	}
	if t.active == nil {
		return t.problem
	}
	return nil
}

// allCovered says whether every expert part has an owner that can be used.
func (t *table) allCovered() bool { return t.active != nil && t.coverage().parts == 0 }

// status says what a wait waits for.
func (t *table) status(n int) string {
	alive, plan := t.alive(), t.active
	if plan == nil && t.pending != nil {
		plan = t.pending.plan
	}
	if plan == nil {
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
	for _, id := range slices.Sorted(maps.Keys(plan.Owned)) {
		if m := t.members[id]; m != nil && t.holds(m, plan.Epoch) {
			continue
		}
		if err := t.usable(id); err != nil {
			late = append(late, id+": "+err.Error())
		}
	}
	return strings.Join(late, "; ")
}
