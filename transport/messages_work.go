package transport

// Work asks for one layer of one batch. Rows are only those for which the worker has something to do.
type Work struct {
	Epoch, Term uint64
	Layer       int
	Request     uint64
	Attempt     uint32
	Rows        int
	Hidden      int
	Quantized   bool
	Values      []float32 // [Rows, Hidden], float formats
	Codes       []int8    // [Rows, kernels.PaddedColumns(Hidden)], quantised ones
	Scales      []float32 // [Rows, kernels.Groups(Hidden)]
	Offsets     []uint32  // [Rows+1] into Parts and Weights
	Parts       []uint32  // expert·parts+part, in each row ascending
	Weights     []float32
}

// Result answers a Work.
type Result struct {
	Request     uint64
	Attempt     uint32
	Rows        int
	Hidden      int
	Sum         []int64  // [Rows, Hidden]; on the wire 4 bytes per element for rows that fit, else 8
	RowErrors   []uint8  // [Rows] RowOK, RowNotFinite, RowOverflow; nil if all are fine
	Parts       []uint32 // distinct expert parts that were computed, ascending
	Hits        []byte   // bit i: Parts[i] was resident
	BytesRead   int64
	ComputeTime int64 // ns
	QueueTime   int64 // ns
}

// Codes of RowErrors.
const (
	RowOK uint8 = iota
	RowNotFinite
	RowOverflow
)
