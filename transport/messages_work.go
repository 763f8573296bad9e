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
	Cut         []LayerParts // expert parts of this worker that the budget dropped since the last work that it got, in the order in which it did; a layer may come again
	Filled      []uint32     // of Parts, ascending: those that only rows need that take them in place of dropped ones
	Hint        LayerParts   // parts of a later layer that are likely to be needed, the likeliest first; may be empty
}

// Result answers a Work.
type Result struct {
	Request     uint64
	Attempt     uint32
	Rows        int
	Hidden      int
	Sum         []int64      // [Rows, Hidden]; on the wire 4 bytes per element for rows that fit, else 8
	RowErrors   []uint8      // [Rows] RowOK, RowNotFinite, RowOverflow; nil if all are fine
	Parts       []uint32     // distinct expert parts that were computed, ascending
	Hits        []byte       // bit i: Parts[i] was resident
	BytesRead   int64        // from block devices meanwhile, by the kernel's account of the process; MissBytes where there is none
	MissBytes   int64        // packed bytes of the expert parts that were not resident
	GhostBytes  int64        // what the ghost ledger had to read for this work and the Cut before it; -1 without a ledger
	MajorFaults int64        // of the process, meanwhile
	Arrived     []LayerParts // expert parts beyond Parts that have become resident since the last result
	Evicted     []LayerParts // expert parts that have ceased to be
	Number      uint64       // of the results of this worker's process, from 1: tells whether a beat's bitmaps are older
	ComputeTime int64        // ns
	QueueTime   int64        // ns
}

// Codes of RowErrors.
const (
	RowOK uint8 = iota
	RowNotFinite
	RowOverflow
)
