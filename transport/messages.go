package transport

// Identity is what both sides must have in common before any work is sent.
type Identity struct {
	Protocol    int
	Build       string // version of the binary; named in errors, may differ
	ModelDigest string
	Format      string // of the experts
	Parts       int
	Layout      int // kernels.LayoutVersion
}

// Mismatch describes the first difference that forbids working together ("parts: coordinator 2, worker w0 1"), or "".
func (a Identity) Mismatch(aName string, b Identity, bName string) string { panic("skeleton") }

// WorkerState is where a worker is in its life.
type WorkerState string

// The states, in order.
const (
	StateIdle     WorkerState = "idle"    // registered, has no assignment
	StateLoading  WorkerState = "loading" // packs or maps what it was assigned
	StateReady    WorkerState = "ready"
	StateDraining WorkerState = "draining"
	StateFailed   WorkerState = "failed" // Error says why
)

// Beat is what a worker says of itself each second and at each change of state; the first one registers it.
type Beat struct {
	Worker   string
	Instance string // random per process: tells a restarted worker from a second holder of the id
	Host     string
	Node     int
	PID      int
	CPUs     []int
	Threads  int
	Kernels  string
	Capacity int64 // bytes of memory that it may use for experts
	Identity Identity

	State       WorkerState
	Error       string
	Epoch, Term uint64 // of its assignment
	Coordinator string // instance of the coordinator that it works for, "" if none
	LoadedBytes int64
	TotalBytes  int64
	ExpertParts int // that it owns
	Arena       ArenaReport
	Pages       PagesReport
	RSSAnon     int64
	Resident    []LayerBitmap // may be empty between changes
	Notes       []string      // degraded modes, each said once
	Bound       bool          // pinned to its node
}

// ArenaReport is a worker's arena counters.
type ArenaReport struct {
	Files       int   `json:"files"`
	Bytes       int64 `json:"bytes"`
	PackedBytes int64 `json:"packed_bytes"`
	ReusedBytes int64 `json:"reused_bytes"`
	Fallbacks   int   `json:"fallbacks"`
}

// PagesReport is where a worker's expert pages lie.
type PagesReport struct {
	Local  int64 `json:"local"`
	Remote int64 `json:"remote"`
}

// LayerBitmap has a bit for each expert part (expert·parts+part) of a layer.
type LayerBitmap struct {
	Layer int
	Bits  []byte
}

// Assign gives a worker its expert parts.
type Assign struct {
	Coordinator string // instance
	Epoch, Term uint64
	Identity    Identity
	Layers      []LayerParts
}

// LayerParts are expert parts of one layer, each expert·parts+part, ascending. On the wire: uint32, little-endian.
type LayerParts struct {
	Layer int
	Parts []uint32
}

// Refuse tells a worker that it can't take part, and why; it must not register again with this instance.
type Refuse struct{ Reason string }

// Drain tells a worker to finish its work and leave.
type Drain struct{}

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

// ErrorCode is why a worker refused or failed.
type ErrorCode string

// The codes.
const (
	CodeMalformed  ErrorCode = "malformed"   // can't be decoded, sizes disagree
	CodeVersion    ErrorCode = "version"     // another protocol version
	CodeWrongEpoch ErrorCode = "wrong-epoch" // another placement
	CodeStaleTerm  ErrorCode = "stale-term"  // an old leader
	CodeNotOwned   ErrorCode = "not-owned"   // an expert part that the worker does not hold
	CodeNotReady   ErrorCode = "not-ready"
	CodeRefused    ErrorCode = "refused" // handshake
	CodeInternal   ErrorCode = "internal"
)

// RemoteError is an error that the other side sent.
type RemoteError struct {
	Worker  string
	Code    ErrorCode
	Message string
}

func (e *RemoteError) Error() string { panic("skeleton") }
