package kernels

// Set is one implementation of all kernels ("generic", "avx2", ...). Its methods may be called from any goroutine. Each
// splits its work so that no assembly call runs longer than about 100 µs.
type Set struct{ name string }

// Known lists the names of all implementations, best first, whatever this CPU can run.
func Known() []string { panic("skeleton") }

// Available lists the implementations that this CPU runs, best first; the last is "generic".
func Available() []string { panic("skeleton") }

// Select gives an implementation: the best for "" or "auto", else the named one. The error of a name that is unknown or
// that this CPU lacks says which are valid and which CPU feature is missing.
func Select(name string) (*Set, error) { panic("skeleton") }

// Name is the name that Select reads.
func (s *Set) Name() string { return s.name }

// Prepare stores x [Columns] as row r of a: a copy, or codes and scales. ErrNotFinite if x holds an infinity or NaN
// (checked for both kinds); the row is then zeros.
func (s *Set) Prepare(a *Activations, r int, x []float32) error { panic("skeleton") }

// Multiply computes, for each i, dst[i*stride+o] = W[o]·x(rows[i]) for outputs o in [from, to); from is a multiple of
// BlockOutputs, and so is to unless it is m.Outputs. a.Quantized equals m.Format.Quantized().
func (s *Set) Multiply(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	panic("skeleton")
}

// SiLUMultiply stores silu(gate)·up into dst (it may be gate); silu(x) = x / (1 + exp(-x)).
func (s *Set) SiLUMultiply(dst, gate, up []float32) { panic("skeleton") }

// RMSNorm stores x / sqrt(mean(x²) + epsilon) · weight into dst (it may be x). Sum of squares: 16 lanes, see reference.
func (s *Set) RMSNorm(dst, x, weight []float32, epsilon float32) { panic("skeleton") }

// Rotate applies rotary embedding in place to each head of x [heads·headDim], pairs (i, i+headDim/2); cos and sin hold
// headDim/2 values (RopeTable).
func (s *Set) Rotate(x []float32, headDim int, cos, sin []float32) { panic("skeleton") }

// AttendBlock computes one query head against keys [n, headDim] and values [n, headDim] of one block:
// scores = scale·q·k, max, p = exp(score-max), sum of p in ascending order, out[d] = Σ p·v ascending. n ≥ 1.
func (s *Set) AttendBlock(out, q, keys, values []float32, n int, scale float32) (max, sum float32) {
	panic("skeleton")
}

// MergeBlock folds a later block (max2, sum2, out2) into the running (max, sum, out).
func (s *Set) MergeBlock(out []float32, max, sum float32, out2 []float32, max2, sum2 float32) (float32, float32) {
	panic("skeleton")
}

// Scale multiplies x by factor in place.
func (s *Set) Scale(x []float32, factor float32) { panic("skeleton") }

// Add adds y to x in place.
func (s *Set) Add(x, y []float32) { panic("skeleton") }

// AddScaled adds factor·y to x in place with two roundings (product, then sum).
func (s *Set) AddScaled(x, y []float32, factor float32) { panic("skeleton") }

// Softmax replaces x by exp(x-max)/sum in place.
func (s *Set) Softmax(x []float32) { panic("skeleton") }

// ToBF16 rounds x to bfloat16, nearest even; FromBF16 is its exact inverse.
func (s *Set) ToBF16(dst []uint16, x []float32) { panic("skeleton") }

// FromBF16 stores bfloat16 values as float32.
func (s *Set) FromBF16(dst []float32, x []uint16) { panic("skeleton") }

// Accumulate adds int64(round-half-even(float64(weight)·float64(y[i])·2^28)) to sum[i]; ErrOverflow if one of them
// reaches 2^52 in absolute value or is NaN; sum is then undefined.
func (s *Set) Accumulate(sum []int64, y []float32, weight float32) error { panic("skeleton") }

// FromFixed stores float32(sum[i]·2^-28), rounded once, into dst.
func (s *Set) FromFixed(dst []float32, sum []int64) { panic("skeleton") }
