// Package attention owns the KV cache and grouped-query attention over it, in blocks of a fixed size aligned to absolute
// positions (DESIGN §2), so that chunks, threads and neighbours don't change a bit.
package attention

// BlockKeys is the number of keys of one block.
const BlockKeys = 64

// Format is how K and V are kept.
type Format string

// The KV formats.
const (
	F32  Format = "f32"
	BF16 Format = "bf16"
)
