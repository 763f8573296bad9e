package residency

import (
	"fmt"
	"slices"
)

// Part names one expert part of a model: ID is expert·parts+part within its layer.
type Part struct {
	Layer int
	ID    uint32
}

// LayerParts are parts of one layer, ascending and distinct.
type LayerParts struct {
	Layer int
	Parts []uint32
}

// Most layers, parts of a layer and bytes of a part that a ledger is kept for.
const (
	MaxLayer    = 1<<12 - 1 // highest number of a layer
	MaxParts    = 1 << 16   // of a layer
	maxSlots    = 1 << 20   // parts of all layers
	maxPartSize = 1 << 40
)

// Options describe what a ledger is kept for.
type Options struct {
	// Limit is the number of bytes that all resident parts together may have.
	Limit int64
	// Policy decides which parts leave; nil is Default.
	Policy Policy
	// Layers are the numbers of the MoE layers, in model order. The order is what policies take for the order of the visits.
	Layers []int
	// Parts is how many parts each layer has (experts · parts of an expert), whoever owns them.
	Parts int
	// Bytes is the size of a part: what its pages take in memory. It is asked for once for each part, by New.
	Bytes func(Part) int64
}

// LimitError says that a limit has not even room for one part.
type LimitError struct {
	Limit, Bytes int64
	Part         Part // a largest one
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("a resident limit of %d bytes has no room for even one expert part: the largest one, part %d of layer %d, has %d bytes",
		e.Limit, e.Part.ID, e.Part.Layer, e.Bytes)
}

// state says what a part is to the ledger.
type state uint8

const (
	absent     state = iota
	evictable        // resident, and known to the policy as something that may leave
	used             // resident; of the latest request, or of one of its waves that may still be computing
	prefetched       // resident because of a hint that has not been requested yet
)

// Ledger is the account of the resident parts of one worker. It is not safe for concurrent use.
type Ledger struct {
	limit  int64
	policy Policy
	layers []int
	parts  int
	index  []int32 // layer → its place in layers, -1: none
	sizes  []int64 // slot → bytes; a slot is place·parts + id

	states  []state
	used    int64
	request uint64 // number of the latest request
	order   order
	history *frequency
	current []int32 // slots of the latest request that are in state used
	hinted  []hint  // slots in state prefetched, oldest first
	hintOf  []bool  // slot → was brought in by a hint and not requested since

	counters Counters
	outcome  Outcome
	evicts   []Part   // memory of outcome.Waves[i].Evict
	reads    []uint32 // memory of outcome.Waves[i].Read
	computed []int32  // slots of the request in the order in which they are computed
	missing  []uint32 // parts of the request that were not resident
}

type hint struct {
	slot    int32
	request uint64 // the latest one when the hint came
}

// Counters are what happened in a ledger so far. MissBytes are the bytes that requests had to read, HintBytes those that hints read.
type Counters struct {
	Requests     uint64 `json:"requests"`
	Hits         uint64 `json:"hits"`
	Misses       uint64 `json:"misses"`
	MissBytes    int64  `json:"miss_bytes"`
	Evictions    uint64 `json:"evictions"`
	Prefetched   uint64 `json:"prefetched"`
	PrefetchUsed uint64 `json:"prefetch_used"`
	HintBytes    int64  `json:"hint_bytes"`
}

// HitRate is the share of requested parts that were resident, 0 without requests.
func (c *Counters) HitRate() float64 {
	if c.Hits+c.Misses == 0 {
		return 0
	}
	return float64(c.Hits) / float64(c.Hits+c.Misses)
}

// New makes a ledger in which nothing is resident. A limit below the largest part is a *LimitError.
func New(o Options) (*Ledger, error) {
	if o.Policy == nil {
		o.Policy = Default
	}
	if len(o.Layers) == 0 {
		return nil, fmt.Errorf("a ledger of no layers")
	}
	if o.Parts < 1 || o.Parts > MaxParts {
		return nil, fmt.Errorf("a ledger of layers with %d expert parts, valid are 1 to %d", o.Parts, MaxParts)
	}
	if len(o.Layers) > maxSlots/o.Parts {
		return nil, fmt.Errorf("a ledger of %d layers with %d expert parts each, valid are %d parts in all", len(o.Layers), o.Parts, maxSlots)
	}
	index := make([]int32, MaxLayer+1)
	for i := range index {
		index[i] = -1
	}
	highest := 0
	for i, layer := range o.Layers {
		if layer < 0 || layer > MaxLayer {
			return nil, fmt.Errorf("a ledger's layer is %d, valid are 0 to %d", layer, MaxLayer)
		}
		if index[layer] >= 0 {
			return nil, fmt.Errorf("a ledger has layer %d twice", layer)
		}
		index[layer], highest = int32(i), max(highest, layer)
	}
	slots := len(o.Layers) * o.Parts
	l := &Ledger{limit: o.Limit, policy: o.Policy, layers: slices.Clone(o.Layers), parts: o.Parts, index: slices.Clone(index[:highest+1]),
		sizes: make([]int64, slots), states: make([]state, slots), hintOf: make([]bool, slots), history: newFrequency(len(o.Layers), o.Parts)}
	largest := 0
	for slot := range l.sizes {
		p := l.part(int32(slot))
		l.sizes[slot] = o.Bytes(p)
		if l.sizes[slot] < 1 || l.sizes[slot] > maxPartSize {
			return nil, fmt.Errorf("part %d of layer %d has %d bytes, valid are 1 to %d", p.ID, p.Layer, l.sizes[slot], int64(maxPartSize))
		}
		if l.sizes[slot] > l.sizes[largest] {
			largest = slot
		}
	}
	if o.Limit < l.sizes[largest] {
		return nil, &LimitError{Limit: o.Limit, Bytes: l.sizes[largest], Part: l.part(int32(largest))}
	}
	l.order = o.Policy.order(len(o.Layers), o.Parts, l.history)
	return l, nil
}

// Limit is the number of bytes that may be resident.
func (l *Ledger) Limit() int64 { return l.limit }

// Policy is the one that decides what leaves.
func (l *Ledger) Policy() Policy { return l.policy }

// Used is the number of bytes that are resident, at the end of the latest request.
func (l *Ledger) Used() int64 { return l.used }

// Counters are the sums so far.
func (l *Ledger) Counters() Counters { return l.counters }

// Known says whether a part is one of those that the ledger is kept for. All other methods panic on a part that isn't, as an index out of range does.
func (l *Ledger) Known(p Part) bool {
	return p.Layer >= 0 && p.Layer < len(l.index) && l.index[p.Layer] >= 0 && int64(p.ID) < int64(l.parts)
}

// Resident says whether a part is in memory, at the end of the latest request.
func (l *Ledger) Resident(p Part) bool { return l.states[l.slot(p)] != absent }

// Bytes is the size of a part.
func (l *Ledger) Bytes(p Part) int64 { return l.sizes[l.slot(p)] }

// AppendResident appends the resident parts of a layer, ascending.
func (l *Ledger) AppendResident(dst []uint32, layer int) []uint32 {
	first := l.slot(Part{Layer: layer})
	for id, s := range l.states[first : int(first)+l.parts] {
		if s != absent {
			dst = append(dst, uint32(id))
		}
	}
	return dst
}

func (l *Ledger) slot(p Part) int32 {
	if !l.Known(p) {
		panic(fmt.Sprintf("residency: part %d of layer %d is none of this ledger", p.ID, p.Layer))
	}
	return l.index[p.Layer]*int32(l.parts) + int32(p.ID)
}

func (l *Ledger) part(slot int32) Part {
	return Part{Layer: l.layers[int(slot)/l.parts], ID: uint32(int(slot) % l.parts)}
}

// Insert brings a part in before it is requested (warm-up): false, and nothing changes, if there is no room. Parts are inserted in descending order of how much they are
// worth keeping.
func (l *Ledger) Insert(p Part) bool {
	slot := l.slot(p)
	if l.states[slot] != absent {
		return true
	}
	if l.used+l.sizes[slot] > l.limit {
		return false
	}
	l.used += l.sizes[slot]
	l.states[slot] = evictable
	l.order.add(slot, false)
	return true
}

// Remove takes a part out that is given back.
func (l *Ledger) Remove(p Part) {
	slot := l.slot(p)
	switch l.states[slot] {
	case absent:
		return
	case evictable:
		l.order.remove(slot)
	case used:
		l.current = slices.DeleteFunc(l.current, func(s int32) bool { return s == slot })
	case prefetched:
		l.hinted = slices.DeleteFunc(l.hinted, func(h hint) bool { return h.slot == slot })
	}
	l.leave(slot)
}

func (l *Ledger) leave(slot int32) {
	l.used -= l.sizes[slot]
	l.states[slot] = absent
	l.hintOf[slot] = false
}

// Clone is a ledger with the same state and a life of its own.
func (l *Ledger) Clone() *Ledger {
	c := *l
	c.states, c.hintOf = slices.Clone(l.states), slices.Clone(l.hintOf)
	c.current, c.hinted = slices.Clone(l.current), slices.Clone(l.hinted)
	c.history = l.history.clone()
	c.order = l.order.clone(c.history)
	c.outcome, c.evicts, c.reads, c.computed, c.missing = Outcome{}, nil, nil, nil, nil
	return &c
}
