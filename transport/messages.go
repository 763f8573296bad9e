package transport

import "fmt"

// ProtocolVersion is the version of every message; both sides refuse another one, naming both.
const ProtocolVersion = 5

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
func (a Identity) Mismatch(aName string, b Identity, bName string) string {
	differ := func(what string, x, y any) string {
		return fmt.Sprintf("%s: %s %v, %s %v", what, aName, x, bName, y)
	}
	switch {
	case a.Protocol != b.Protocol:
		return differ("protocol", version(a), version(b))
	case a.ModelDigest != b.ModelDigest:
		return differ("model digest", a.ModelDigest, b.ModelDigest)
	case a.Format != b.Format:
		return differ("format", a.Format, b.Format)
	case a.Parts != b.Parts:
		return differ("parts", a.Parts, b.Parts)
	case a.Layout != b.Layout:
		return differ("layout version", a.Layout, b.Layout)
	}
	return ""
}

// version is a protocol version with the build that speaks it, where known.
func version(a Identity) string {
	if a.Build == "" {
		return fmt.Sprint(a.Protocol)
	}
	return fmt.Sprintf("%d (build %s)", a.Protocol, a.Build)
}

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
	Epoch, Term uint64   // of its newest assignment
	Coordinator string   // instance of the coordinator that it works for, "" if none
	Serves      []uint64 // epochs whose parts it holds and answers for, ascending, at most MaxServed; State is that of Epoch
	LoadedBytes int64
	TotalBytes  int64
	ExpertParts int // that it owns
	Arena       ArenaReport
	Pages       PagesReport
	RSSAnon     int64
	Resident    []LayerBitmap // may be empty between changes
	Results     uint64        // the number of the last Result that Resident certainly knows of
	Residency   ResidencyReport
	Notes       []string // degraded modes, each said once
	Bound       bool     // pinned to its node
	Lane        LaneOffer

	Queue         int         // requests that wait or are computed
	LayerTimes    []LayerTime // since it started, ascending by layer; layers that it has not computed yet are missing
	ComputedBytes int64       // packed bytes of the expert parts that it has computed since it started, each request's distinct ones once
	ComputeTime   int64       // ns that this took; ComputedBytes / ComputeTime is its bandwidth
}

// LayerTime is how long a worker has computed one layer.
type LayerTime struct {
	Layer       int    `json:"layer"`
	Count       uint64 `json:"count"` // of requests
	Nanoseconds int64  `json:"nanoseconds"`
	Hits        uint64 `json:"hits"` // expert parts that were resident when they were asked for
	Misses      uint64 `json:"misses"`
	BytesRead   int64  `json:"bytes_read"` // from block devices, meanwhile
	MajorFaults uint64 `json:"major_faults"`
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

// ResidencyReport is what a worker knows of the experts that it has in memory; counters are since its start.
type ResidencyReport struct {
	Limit        int64  `json:"limit"`    // bytes of its ledger; 0: it has none, the kernel decides
	Eviction     string `json:"eviction"` // the ledger's policy
	Resident     int64  `json:"resident"` // bytes of expert parts in memory
	Hits         uint64 `json:"hits"`     // expert parts that were resident when they were asked for
	Misses       uint64 `json:"misses"`
	MissBytes    int64  `json:"miss_bytes"`  // packed bytes of the misses
	BytesRead    int64  `json:"bytes_read"`  // from block devices while it computed, by the kernel's account
	GhostBytes   int64  `json:"ghost_bytes"` // what the ghost ledger had to read; -1 without a ledger
	MajorFaults  uint64 `json:"major_faults"`
	Evictions    uint64 `json:"evictions"`
	Reclaimed    uint64 `json:"reclaimed"`  // hits of the ledger that the kernel had taken away
	Prefetched   uint64 `json:"prefetched"` // expert parts that were read because of hints
	PrefetchUsed uint64 `json:"prefetch_used"`
	PrefetchLate uint64 `json:"prefetch_late"` // that were still being read when they were asked for
	PrefetchOff  bool   `json:"prefetch_off"`  // it doesn't follow hints
	Warm         string `json:"warm"`          // what is brought in before the first work: all, hottest, none
	WarmDone     int64  `json:"warm_done"`     // bytes of that which are done
	WarmTotal    int64  `json:"warm_total"`
	Locked       int64  `json:"locked"` // bytes that the kernel must not take away
}

// LayerBitmap has a bit for each expert part (expert·parts+part) of a layer.
type LayerBitmap struct {
	Layer int
	Bits  []byte
}

// Assign tells a worker to prepare an epoch: to load its expert parts while it goes on serving what it serves, and then to serve both, until
// a CoordinatorBeat of that coordinator and term says that this one, or a later one, is active.
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

// CoordinatorBeat is what a coordinator says of itself each second, so that workers know that it lives.
type CoordinatorBeat struct {
	Instance string
	Term     uint64
	Epoch    uint64 // of the active plan, 0 without one: work of earlier epochs is not sent any more
	Identity Identity
}

// Refuse tells a worker that it can't take part, and why; it must not register again with this instance.
type Refuse struct{ Reason string }

// Drain tells a worker to finish its work and leave.
type Drain struct{}
