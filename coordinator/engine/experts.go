package engine

import (
	"context"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
)

// ExpertCall is the routed work of one layer of one batch.
type ExpertCall struct {
	Layer   int
	Rows    *kernels.Activations // [rows, hidden], prepared for the experts' format
	Choices []router.Choice      // per row, after the budget; a row may have none
	Sum     []int64              // [rows, hidden], zeroed by the engine; Compute adds fixed-point sums (DESIGN §2)
	RowErr  []error              // per row; Compute sets the error of a row that can't be computed
}

// ExpertStats is what a layer's experts cost.
type ExpertStats struct {
	Hits, Misses int // distinct expert parts
	BytesRead    int64
}

// Experts computes routed experts; dispatch implements it over NATS.
type Experts interface {
	// Compute fills call.Sum. An error ends the whole step (a worker died or hung); a row's own error goes to RowErr. It keeps
	// nothing of the call when it returns. The engine may compute a shared expert on its team at the same time.
	Compute(ctx context.Context, call *ExpertCall) (ExpertStats, error)
	// Snapshot tells the budget whether all parts of an expert are in memory, from one snapshot per step: it is called once
	// before a step's first layer, and not at all if the budget is off.
	Snapshot() Residency
}

// Residency is an immutable snapshot.
type Residency interface {
	Resident(layer int, expert int32) bool
}

// PartResidency is a Residency that knows parts, too: Totals.BytesNotRead then leaves out the resident parts of a dropped expert.
type PartResidency interface {
	Residency
	ResidentPart(layer int, expert int32, part int) bool
}

// Totals are the engine's counters since the start.
type Totals struct {
	ExpertStats
	DroppedExperts int
	DroppedMass    float64
	RescuedRows    int
	BytesNotRead   int64 // expert bytes that were not resident and, by the budget, not read
}

// Totals gives the counters. It doesn't wait for a step in progress.
func (e *Engine) Totals() Totals {
	e.counting.Lock()
	defer e.counting.Unlock()
	return e.totals
}

func (e *Engine) countExperts(s ExpertStats) {
	e.counting.Lock()
	defer e.counting.Unlock()
	e.totals.Hits += s.Hits
	e.totals.Misses += s.Misses
	e.totals.BytesRead += s.BytesRead
}

// countBudget adds a layer's decision. Dropped experts were not resident as a whole.
func (e *Engine) countBudget(layer int, r budget.Report, residency Residency) {
	if r.DroppedExperts == 0 && r.RescuedRows == 0 {
		return
	}
	parts, _ := residency.(PartResidency)
	var unread int64
	for _, expert := range r.Dropped {
		for part, bytes := range e.partBytes {
			if parts == nil || !parts.ResidentPart(layer, expert, part) {
				unread += bytes
			}
		}
	}
	e.counting.Lock()
	defer e.counting.Unlock()
	e.totals.DroppedExperts += r.DroppedExperts
	e.totals.DroppedMass += r.DroppedMass
	e.totals.RescuedRows += r.RescuedRows
	e.totals.BytesNotRead += unread
}
