package budget

// Policy is a parsed --expert-budget with its switches. The zero value is off; policies can be compared with ==.
type Policy struct {
	Count int     // most distinct experts of a layer's batch; hits count too, but are never dropped. 0: no such limit
	Bytes int64   // most bytes that one worker reads of a layer's misses. 0: no such limit
	Mass  float64 // most share of a row's mass that is dropped by leaving out misses. 0: off, else below 1
	TopP  float64 // share of a row's mass that its kept experts must reach. 0: off, else below 1
	// Unscaled leaves the weights of rows that lost experts as they are, also where the model normalises them.
	Unscaled bool
	Fill     int // rows take resident experts for lost ones from that many of their best: 0: off; DefaultFill

	Prefill bool // prefill rows are governed too
	Rescue  bool // a row never loses its last expert; Parse sets it
}

// DefaultFill is a Policy.Fill of twice the number of experts that the model chooses for a row.
const DefaultFill = -1

// Off says whether the policy never drops anything.
func (p Policy) Off() bool { return p.Count <= 0 && p.Bytes <= 0 && p.Mass <= 0 && p.TopP <= 0 }

// Candidates is how many of a row's best experts Apply wants to know, when the model chooses k; 0: none.
func (p Policy) Candidates(k int) int {
	switch {
	case p.Off():
		return 0
	case p.Fill == DefaultFill:
		return 2 * k
	}
	return p.Fill
}

// Governs says whether rows of a phase may lose experts.
func (p Policy) Governs(phase Phase) bool { return phase != Prefill || p.Prefill }

// Phase is what a row is computed for.
type Phase uint8

// The phases.
const (
	Prefill Phase = iota
	Decode
	Verify
)
