// Package sampling chooses the next token from logits. Its state is a function of seed and position, so that a generation can
// be continued elsewhere. Pure.
package sampling

// Params are the usual sampling parameters; the zero value is greedy.
type Params struct {
	Temperature float32 // 0 is greedy
	TopK        int     // 0 is off
	TopP        float32 // 0 or 1 is off
	MinP        float32 // 0 is off
	Seed        uint64
}

// Validate says which parameter is out of range and what is valid.
func (p Params) Validate() error { panic("skeleton") }

// Sample chooses a token for the given absolute position; logits are not changed. Ties: the lower id wins; NaN sorts last.
func (p Params) Sample(logits []float32, position int) int32 { panic("skeleton") }
