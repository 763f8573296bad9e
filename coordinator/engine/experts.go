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

	// What the budget has changed, for accounts of what it saves; both ascending.
	Cut    []int32 // experts that the router chose for rows and that no row has any more
	Filled []int32 // experts that rows have only in place of those that the budget took from them
}

// ExpertStats is what a layer's experts cost.
type ExpertStats struct {
	Hits, Misses int   // distinct expert parts
	MissBytes    int64 // packed bytes of the misses
	BytesRead    int64 // what workers really read from block devices meanwhile
	GhostBytes   int64 // what workers with a ledger would have had to read without the budget
	Unledgered   int   // answers of workers that keep no ledger: GhostBytes knows nothing of them
	MajorFaults  int64

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
	s.MissBytes += o.MissBytes
	s.BytesRead += o.BytesRead
	s.GhostBytes += o.GhostBytes
	s.Unledgered += o.Unledgered
	s.MajorFaults += o.MajorFaults
	s.Retries += o.Retries
	s.Hedges += o.Hedges
	s.HedgeWins += o.HedgeWins
	s.Waits += o.Waits
	s.Waited += o.Waited
	s.DroppedParts += o.DroppedParts
	s.MissingMass += o.MissingMass
	s.EmptyRows += o.EmptyRows
}

// Since is what was counted after before, an earlier state of the same counters.
func (s ExpertStats) Since(before *ExpertStats) ExpertStats {
	s.Hits -= before.Hits
	s.Misses -= before.Misses
	s.MissBytes -= before.MissBytes
	s.BytesRead -= before.BytesRead
	s.GhostBytes -= before.GhostBytes
	s.Unledgered -= before.Unledgered
	s.MajorFaults -= before.MajorFaults
	s.Retries -= before.Retries
	s.Hedges -= before.Hedges
	s.HedgeWins -= before.HedgeWins
	s.Waits -= before.Waits
	s.Waited -= before.Waited
	s.DroppedParts -= before.DroppedParts
	s.MissingMass -= before.MissingMass
	s.EmptyRows -= before.EmptyRows
	return s
}

// BytesNotRead is by how much the budget reduced what had to be read: what ledgers with the same policies and limits would have had to read
// for what the router chose, less what had to be read. False: it isn't known, since some worker keeps no ledger.
func (s *ExpertStats) BytesNotRead() (bytes int64, known bool) {
	return s.GhostBytes - s.MissBytes, s.Unledgered == 0 && s.Hits+s.Misses > 0
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

// PartResidency is a Residency that knows parts, too: what is dropped is then counted without the resident parts of an expert.
type PartResidency interface {
	Residency
	ResidentPart(layer int, expert int32, part int) bool
}

// WorkerResidency knows who holds the parts, too: a budget of bytes then counts for each worker.
type WorkerResidency interface {
	PartResidency
	// Reader is the number, from 0 up, of the worker that would read a part; workers have the same numbers in all layers.
	Reader(layer int, expert int32, part int) int
}

// Totals are the engine's counters since the start.
type Totals struct {
	ExpertStats
	budget.Counts
	DroppedBytes int64 // packed bytes of dropped experts' parts that were not resident: what the budget saved at most
}

// Since is what was counted after before, an earlier state of the same counters.
func (t Totals) Since(before *Totals) Totals {
	t.ExpertStats = t.ExpertStats.Since(&before.ExpertStats)
	t.Counts = t.Counts.Since(&before.Counts)
	t.DroppedBytes -= before.DroppedBytes
	return t
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
	e.totals.ExpertStats.Add(s)
}
