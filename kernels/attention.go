package kernels

import "unsafe"

// KVFormat is how the keys and values of attention are kept.
type KVFormat uint8

// The KV formats.
const (
	KVF32 KVFormat = iota
	KVBF16
	// KVInt8 keeps codes round-half-even(x/scale) with scale = maxabs/127, one for the key and one for the value of a position and head.
	KVInt8
)

// elementBytes is the size of a stored element.
func (f KVFormat) elementBytes() int { return [...]int{4, 2, 1}[f] }

const (
	// KVBlockKeys is the number of keys of a block.
	KVBlockKeys = 64
	// AttentionRows is the most queries that share the reading of a block.
	AttentionRows = 8

	// kvTile is the number of outputs (keys, then elements of values) that products compute at once.
	kvTile = 32
	// mostHeadDim is the largest key for which assembly is called; beyond it a call would be too long.
	mostHeadDim = 2048
)

// KVBlock is KVBlockKeys keys and values of one head, packed so that both products of attention are products with rows of kvTile
// adjacent outputs: keys [2][KeyDim][32 keys], values [⌈ValueDim/32⌉][64 keys][32 elements]. Of 32 bfloat16 outputs, i and i+16 are
// neighbours, so that a shift and a mask give 16 float32 each. The float32 scales of KVInt8 follow: 64 of keys, 64 of values.
type KVBlock struct {
	Format           KVFormat
	KeyDim, ValueDim int
	Data             []byte
}

// KVBlockBytes is the size of a block's data.
func KVBlockBytes(f KVFormat, keyDim, valueDim int) int {
	bytes := KVBlockKeys * (keyDim + paddedDim(valueDim)) * f.elementBytes()
	if f == KVInt8 {
		bytes += 2 * KVBlockKeys * 4
	}
	return bytes
}

// paddedDim is the number of elements of a value with those that fill its last tile.
func paddedDim(valueDim int) int { return (valueDim + kvTile - 1) / kvTile * kvTile }

// keys and values are the packed elements, scales those of KVInt8 (keys', then values').
func (b KVBlock) keys() []byte { return b.Data[:KVBlockKeys*b.KeyDim*b.Format.elementBytes()] }
func (b KVBlock) values() []byte {
	from := len(b.keys())
	return b.Data[from : from+KVBlockKeys*paddedDim(b.ValueDim)*b.Format.elementBytes()]
}
func (b KVBlock) scales() []float32 {
	return elements[float32](b.Data[len(b.keys())+len(b.values()):])
}

// elements views packed bytes as elements of a type.
func elements[T float32 | uint16 | int8](data []byte) []T {
	var element T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/int(unsafe.Sizeof(element)))
}

func (b KVBlock) check() {
	mustEqual("size of a KV block", len(b.Data), KVBlockBytes(b.Format, b.KeyDim, b.ValueDim))
}

// keyAt and valueAt are the element indexes of element d of a key or value.
func (b KVBlock) keyAt(key, d int) int {
	return (key/kvTile*b.KeyDim+d)*kvTile + b.Format.slot(key%kvTile)
}

func (b KVBlock) valueAt(key, d int) int {
	return (d/kvTile*KVBlockKeys+key)*kvTile + b.Format.slot(d%kvTile)
}

// slot is the place of an output within its tile.
func (f KVFormat) slot(output int) int {
	if f == KVBF16 {
		return output%(kvTile/2)*2 + output/(kvTile/2)
	}
	return output
}

// AttentionState is the running result of up to AttentionRows queries: for each, the largest score, the sum of Exp(score - largest)
// and the sum of the values with these weights [value dim].
type AttentionState struct {
	Max, Sum [AttentionRows]float32
	Out      [AttentionRows][]float32

	// What a merge multiplies this and the later state by.
	factor, laterFactor [AttentionRows]float32
}

// AttentionTile is what AttendBlock needs of up to AttentionRows queries of one key/value head. It is used by one goroutine at a time.
type AttentionTile struct {
	// Rows is the number of queries.
	Rows int
	// Q are the queries [key dim]. Query i sees the keys [From[i], To[i]) of the block, at least one.
	Q        [AttentionRows][]float32
	From, To [AttentionRows]int32
	State    AttentionState

	keyDim   int
	valueDim int
	block    AttentionState        // the result of one block; Out are parts of sums
	sums     []float32             // [AttentionRows][paddedDim(valueDim)]
	weights  []float32             // [AttentionRows][KVBlockKeys]: scores, then their exponentials
	seen     [AttentionRows]uint64 // the bits of the keys that each row sees
	pointers [AttentionRows]*float32
	product  kvProductArguments
}

// kvProductArguments are those of a product of some rows with tiles of packed keys or values, as assembly wants them: here, so
// that calls through function values allocate nothing.
type kvProductArguments struct {
	format         KVFormat
	rows           int
	dst            *float32
	stride         int
	x              **float32
	columns, tiles int
	weights        *byte
	skip, ahead    int
}

// NewAttentionTile gives a tile for keys and values of some sizes.
func NewAttentionTile(keyDim, valueDim int) *AttentionTile {
	stride := paddedDim(valueDim)
	t := &AttentionTile{
		keyDim: keyDim, valueDim: valueDim,
		sums: make([]float32, AttentionRows*stride), weights: make([]float32, AttentionRows*KVBlockKeys),
	}
	for i := range t.block.Out {
		t.block.Out[i] = t.sums[i*stride : i*stride+valueDim]
	}
	return t
}

// StoreKV packs a key [KeyDim] and a value [ValueDim] as number at of a block. With KVInt8, one that is not finite gets the scale NaN.
func (s *Set) StoreKV(b KVBlock, at int, key, value []float32) {
	b.check()
	mustEqual("length of a key", len(key), b.KeyDim)
	mustEqual("length of a value", len(value), b.ValueDim)
	if at < 0 || at >= KVBlockKeys {
		panicf("key %d of a block of %d", at, KVBlockKeys)
	}
	storeKV(b, at, key, value)
}

// AttendBlock computes the queries of a tile against one block and folds the result into t.State (MergeAttention).
//
// For each query and key that it sees: score = (q·k)·scale, the product by one FMA per element, ascending, from 0; with KVInt8 q·k is of the
// codes, multiplied by the key's scale first. Max is the largest score (NaNs ignored); p = Exp(score-max); Sum is that of p in 16 lanes:
// key j in lane j mod 16, ascending, the lanes added by halves (keys that are not seen are zeros). Out = Σ p·v, one FMA per key,
// ascending, from 0; with KVInt8 of the codes, with p multiplied by the value's scale first.
func (s *Set) AttendBlock(t *AttentionTile, b KVBlock, scale float32) {
	s.AttendBlockAhead(t, b, scale, b)
}

// AttendBlockAhead is AttendBlock that asks for next's memory while it computes: the block that the caller attends to next.
func (s *Set) AttendBlockAhead(t *AttentionTile, b KVBlock, scale float32, next KVBlock) {
	b.check()
	next.check()
	for _, block := range []KVBlock{b, next} {
		mustEqual("size of keys", block.KeyDim, t.keyDim)
		mustEqual("size of values", block.ValueDim, t.valueDim)
	}
	if t.Rows < 1 || t.Rows > AttentionRows {
		panicf("%d queries of an attention tile, want 1 to %d", t.Rows, AttentionRows)
	}
	for i := range t.Rows {
		mustEqual("length of a query", len(t.Q[i]), b.KeyDim)
		if t.From[i] < 0 || t.From[i] >= t.To[i] || t.To[i] > KVBlockKeys {
			panicf("keys [%d, %d) of a block of %d", t.From[i], t.To[i], KVBlockKeys)
		}
	}
	if b.KeyDim == 0 || b.ValueDim == 0 {
		panicf("keys or values of no elements")
	}
	s.operations.attendBlock(t, b, scale, next)
	s.MergeAttention(&t.State, &t.block, t.Rows)
}

// Reset makes row i of a state, whose Out is set, the neutral one: (-Inf, 0, zeros).
func (a *AttentionState) Reset(i int) {
	a.Max[i], a.Sum[i] = negativeInfinity, 0
	clear(a.Out[i])
}

// MergeAttention folds a later result of some rows into an earlier one: with m the larger maximum, a = Exp(max-m), b = Exp(max2-m):
// out = FMA(out2, b, out·a), and the sum likewise. A neutral earlier state gives the later one (but +0 for -0) if its maximum is finite.
// The caller divides by the last sum.
func (s *Set) MergeAttention(earlier, later *AttentionState, rows int) {
	if rows < 1 || rows > AttentionRows {
		panicf("%d rows of an attention state, want 1 to %d", rows, AttentionRows)
	}
	s.operations.mergeFactors(earlier, later)
	for i := range rows {
		mustEqual("length of the later result", len(later.Out[i]), len(earlier.Out[i]))
		s.operations.merge(earlier.Out[i], earlier.factor[i], later.Out[i], earlier.laterFactor[i])
	}
}
