// Package budget owns the expert budget (DESIGN §7): which experts of a batch's union are computed. Pure: values in,
// decision out.
package budget

import "github.com/moepool/moepool/coordinator/router"

// Phase is what a row is computed for.
type Phase uint8

// The phases.
const (
	Prefill Phase = iota
	Decode
	Verify
)

// Policy is a parsed --expert-budget with its switches.
type Policy struct {
	Count   int  // 0 is off
	Prefill bool // prefill rows are governed too
	Rescue  bool // a row never loses its last expert; default true
}

// Parse reads "off", "N" or "count=N"; the error says what is valid.
func Parse(s string) (Policy, error) { panic("skeleton") }

// String is the policy as Parse reads it.
func (p Policy) String() string { panic("skeleton") }

// Report counts what a decision did.
type Report struct {
	DroppedExperts int     // distinct experts of the layer
	DroppedMass    float64 // combine weight removed from rows, before any rescaling
	RescuedRows    int
	Dropped        []int32 // ids, ascending
}

// Apply filters rows (in place) of one layer. phases[i] is the phase of rows[i]; resident tells a hit; normalize is the
// model's norm_topk_prob: only then are the survivors rescaled to the row's former total.
func Apply(p Policy, rows []router.Choice, phases []Phase, resident func(expert int32) bool, normalize bool) Report {
	panic("skeleton")
}
