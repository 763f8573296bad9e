// Package engine computes one step of the model over a batch of rows: attention, routing, budget, experts, LM head. It knows
// experts only through the Experts interface.
package engine

import (
	"context"

	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
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
	// Compute fills call.Sum. An error ends the whole step (a worker died or hung); a row's own error goes to RowErr.
	Compute(ctx context.Context, call *ExpertCall) (ExpertStats, error)
	// Resident tells the budget whether all parts of an expert are in memory, from one snapshot per step: Snapshot is called once
	// before a step's first layer.
	Snapshot() Residency
}

// Residency is an immutable snapshot.
type Residency interface {
	Resident(layer int, expert int32) bool
}

// Options configure an engine.
type Options struct {
	Kernels      *kernels.Set
	Team         *team.Team // the coordinator's threads
	ExpertFormat kernels.Format
	DenseFormat  kernels.Format
	KVFormat     attention.Format
	Context      int // most positions of a sequence
	Budget       budget.Policy
	Experts      Experts
	Progress     func(done, total int64) // bytes of dense weights packed; may be nil
}

// Chunk is consecutive positions of one sequence in a step.
type Chunk struct {
	Sequence *Sequence
	Tokens   []int32
	Phase    budget.Phase
	Logits   LogitsWanted
}

// LogitsWanted says for which positions of a chunk the LM head is computed.
type LogitsWanted uint8

// What can be wanted.
const (
	LastLogits LogitsWanted = iota
	AllLogits
	NoLogits
)

// Output is the result of one chunk: Logits [n, vocabulary] for n wanted positions, or Err (that sequence only).
type Output struct {
	Logits []float32
	Err    error
}

// Totals are the engine's counters since the start or the last reset.
type Totals struct {
	ExpertStats
	DroppedExperts int
	DroppedMass    float64
	RescuedRows    int
	BytesNotRead   int64 // expert bytes that were not resident and, by the budget, not read
}
