package engine

// Sequence is one sequence's KV cache and length.
type Sequence struct{}
