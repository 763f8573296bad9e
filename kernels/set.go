package kernels

// Set is one implementation of all kernels ("generic", "avx2", ...). Its methods may be called from any goroutine. Each
// splits its work so that no assembly call runs longer than about 100 µs. Slices whose lengths don't fit each other are a
// programming error and panic; sources and destinations overlap only where a method says that they may.
type Set struct {
	name       string
	requires   []string     // names of CPU features (Features)
	permit     func() error // asks the operating system where that is needed, once a process; else nil
	operations operations
}

// operations is what an implementation provides. Arguments have been checked.
type operations struct {
	// quantize fills the codes (padding included) and scales of one row; false if x is not finite.
	quantize func(codes []int8, scales, x []float32) bool
	finite   func(x []float32) bool
	// quantizeWeights fills the bytes (padding included) and bfloat16 scales of one output.
	quantizeWeights func(codes []byte, scales []uint16, weights []float32)
	// quantizeWeightsQ4 fills the codes (one a byte, padding included) and bfloat16 scales of one output.
	quantizeWeightsQ4 func(codes []byte, scales []uint16, weights []float32)
	// quantizeWeightsMXFP4 fills the codes (one a byte, padding included) and e8m0 scales of one output.
	quantizeWeightsMXFP4 func(codes, scales []byte, weights []float32)
	// Products of some blocks with some rows; see Set.Multiply.
	multiplyFloat, multiplyQ8, multiplyQ4, multiplyFP8, multiplyMXFP4 multiplyFunc
	// gatherQ8 arranges the rows of a Gathered, unless there are too few; multiplyQ8Gathered multiplies them. Nil: nothing to arrange.
	gatherQ8           func(g *Gathered)
	multiplyQ8Gathered func(dst []float32, stride int, m Matrix, g *Gathered, from, to int)

	siluMultiply func(dst, gate, up []float32)
	rmsNorm      func(dst, x, weight []float32, epsilon float32)
	rotate       func(head, cos, sin []float32) // one head
	// attendBlock computes t.block; see Set.AttendBlock.
	attendBlock func(t *AttentionTile, b KVBlock, scale float32, next KVBlock)
	// mergeFactors folds the maxima and sums and fills earlier's factors; see Set.MergeAttention.
	mergeFactors func(earlier, later *AttentionState)
	// expMinus replaces each x by Exp(x-shift).
	expMinus func(x []float32, shift float32)
	// merge stores FMA(y, b, x·a) into x.
	merge     func(x []float32, a float32, y []float32, b float32)
	divide    func(x []float32, divisor float32)
	add       func(x, y []float32)
	addScaled func(x, y []float32, factor float32)
	// accumulate: see Set.Accumulate; false on overflow.
	accumulate func(sum []int64, y []float32, weight float32) bool
	fromFixed  func(dst []float32, sum []int64)
}

type multiplyFunc func(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int)

// Name is the name that Select reads.
func (s *Set) Name() string { return s.name }

// Prepare stores x [Columns] as row r of a: a copy, or codes and scales. ErrNotFinite if x holds an infinity or NaN
// (checked for both kinds); the row is then zeros.
func (s *Set) Prepare(a *Activations, r int, x []float32) error {
	mustEqual("length of a row", len(x), a.Columns)
	if a.Quantized {
		if !s.operations.quantize(a.codes(r), a.scales(r), x) {
			clear(a.codes(r))
			clear(a.scales(r))
			return ErrNotFinite
		}
		return nil
	}
	if !s.operations.finite(x) {
		clear(a.values(r))
		return ErrNotFinite
	}
	copy(a.values(r), x)
	return nil
}

// Multiply computes, for each i, dst[i*stride+o] = W[o]·x(rows[i]) for outputs o in [from, to); from is a multiple of
// BlockOutputs, and so is to unless it is m.Outputs. a.Quantized equals m.Format.Quantized(). Other elements of dst are not
// touched. The order of sums: see the package's contract.
func (s *Set) Multiply(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	if len(rows) == 0 || from >= to {
		return
	}
	checkMultiply(len(dst), stride, m, a, rows, from, to)
	switch m.Format {
	case Q8:
		s.operations.multiplyQ8(dst, stride, m, a, rows, from, to)
	case FP8:
		s.operations.multiplyFP8(dst, stride, m, a, rows, from, to)
	case Q4:
		s.operations.multiplyQ4(dst, stride, m, a, rows, from, to)
	case MXFP4:
		s.operations.multiplyMXFP4(dst, stride, m, a, rows, from, to)
	default:
		s.operations.multiplyFloat(dst, stride, m, a, rows, from, to)
	}
}

// SiLUMultiply stores silu(gate)·up into dst (it may be gate or up); silu(x) = x / (1 + Exp(-x)), -0 for -Inf.
func (s *Set) SiLUMultiply(dst, gate, up []float32) {
	mustEqual("length of gate", len(gate), len(dst))
	mustEqual("length of up", len(up), len(dst))
	s.operations.siluMultiply(dst, gate, up)
}

// RMSNorm stores x / sqrt(mean(x²) + epsilon) · weight into dst (it may be x): the sum of squares in 16 lanes (package
// contract), mean = sum/n, factor = 1/sqrt(mean + epsilon), then (x·factor)·weight with two roundings.
func (s *Set) RMSNorm(dst, x, weight []float32, epsilon float32) {
	mustEqual("length of x", len(x), len(dst))
	mustEqual("length of weight", len(weight), len(dst))
	s.operations.rmsNorm(dst, x, weight, epsilon)
}

// Rotate applies rotary embedding in place to each head of x [heads·headDim], pairs (i, i+headDim/2); cos and sin hold
// headDim/2 values (RopeTable): x1·cos - x2·sin and x2·cos + x1·sin, each product rounded.
func (s *Set) Rotate(x []float32, headDim int, cos, sin []float32) {
	if headDim <= 0 || headDim%2 != 0 || len(x)%headDim != 0 {
		panicf("%d values are not whole heads of an even size %d", len(x), headDim)
	}
	mustEqual("length of cos", len(cos), headDim/2)
	mustEqual("length of sin", len(sin), headDim/2)
	for ; len(x) > 0; x = x[headDim:] {
		s.operations.rotate(x[:headDim], cos, sin)
	}
}

// Divide divides x by divisor in place.
func (s *Set) Divide(x []float32, divisor float32) { s.operations.divide(x, divisor) }

// Add adds y to x in place.
func (s *Set) Add(x, y []float32) {
	mustEqual("length of y", len(y), len(x))
	s.operations.add(x, y)
}

// AddScaled adds factor·y to x in place with two roundings (product, then sum).
func (s *Set) AddScaled(x, y []float32, factor float32) {
	mustEqual("length of y", len(y), len(x))
	s.operations.addScaled(x, y, factor)
}

// Softmax replaces x by Exp(x-max)/sum in place, the sum in ascending order. A NaN or +Inf in x, or nothing but -Inf, makes
// every element NaN.
func (s *Set) Softmax(x []float32) {
	s.operations.expMinus(x, largest(x))
	s.operations.divide(x, ascendingSum(x))
}

// Accumulate adds int64(round-half-even(float64(weight)·float64(y[i])·2^28)) to sum[i]; ErrOverflow if one of them
// reaches 2^52 in absolute value or is NaN; sum is then undefined.
func (s *Set) Accumulate(sum []int64, y []float32, weight float32) error {
	mustEqual("length of y", len(y), len(sum))
	if !s.operations.accumulate(sum, y, weight) {
		return ErrOverflow
	}
	return nil
}

// FromFixed stores float32(sum[i]·2^-28), rounded once, into dst.
func (s *Set) FromFixed(dst []float32, sum []int64) {
	mustEqual("length of sum", len(sum), len(dst))
	s.operations.fromFixed(dst, sum)
}
