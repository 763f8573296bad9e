package engine

import (
	"context"
	"time"

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
	Next    Prediction           // what the rows will probably want of a later layer: a hint that changes no sum
}

// ExpertStats is what a layer's experts cost.
type ExpertStats struct {
	Hits, Misses int // distinct expert parts
	BytesRead    int64

	Retries   int           // shares of work that were sent again, since their worker was lost, silent or refused them
	Hedges    int           // shares that were late and for which another worker was asked, too
	HedgeWins int           // of these, how often the other one was faster
	Waits     int           // how often work waited for experts that no worker held
	Waited    time.Duration // for how long

	DroppedParts int     // expert parts that were left out of a layer, since no worker held them
	MissingMass  float64 // combine weight that rows lost with them
	EmptyRows    int     // rows that lost all their experts: their routed sum is zero
}

// Add adds what another call cost.
func (s *ExpertStats) Add(o ExpertStats) {
	s.Hits += o.Hits
	s.Misses += o.Misses
	s.BytesRead += o.BytesRead
	s.Retries += o.Retries
	s.Hedges += o.Hedges
	s.HedgeWins += o.HedgeWins
	s.Waits += o.Waits
	s.Waited += o.Waited
	s.DroppedParts += o.DroppedParts
	s.MissingMass += o.MissingMass
	s.EmptyRows += o.EmptyRows
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
	DroppedExperts int // by the budget, as what follows
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
	e.totals.Add(s)
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
