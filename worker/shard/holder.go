package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/transport"
)

// Options say what a Holder packs from, where to, and what it computes with.
type Options struct {
	// Checkpoint is read while loading, and again when a slot has to be rebuilt: it stays open as long as the holder. It may be nil
	// with Pack.
	Checkpoint *checkpoint.Checkpoint

	// Pack fills dst with the packed bytes of an expert part, from several goroutines; nil packs from Checkpoint. A benchmark makes
	// its weights in place with it.
	Pack func(shape kernels.ExpertShape, layer, expert, part int, dst []byte) error

	// Store holds the arenas; the caller closes it after the last use of the holder.
	Store *arena.Store

	// Dir is the store's folder, for messages and for the free space of its disk; "" is anonymous memory.
	Dir string

	// Team packs and computes. Its threads carry the node's memory policy.
	Team *team.Team

	// Kernels computes; it is not needed for packing alone.
	Kernels *kernels.Set

	// Node is where pages belong; negative: not looked at.
	Node int

	// StrictNUMA makes less than 95 % of local pages an error of Load.
	StrictNUMA bool

	// Resident, if not nil, limits the memory of experts in files.
	Resident *ResidentOptions

	// Prefetch says whether hints of works are followed; its zero value is PrefetchAuto. It needs Resident.
	Prefetch Prefetch

	// Log receives what a person should see; may be nil.
	Log func(format string, args ...any)
}

// Holder holds the expert parts of one worker: those of all plans that it has loaded and not given back, each part once, however many
// plans own it. Load and GiveBack are called by one goroutine at a time; everything else may be called at the same time.
type Holder struct {
	o      Options
	pages  placement
	limits limits

	mu     sync.Mutex // of the maps
	layers map[int]*heldLayer
	loaded map[*Shards]bool // that can compute

	works     atomic.Uint64 // that have begun
	computing sync.Mutex    // one Compute at a time
	scratch   scratch
	bandwidth bandwidth
	reads     reads
	resident  atomic.Int64 // bytes that Resident found last
	results   atomic.Uint64

	reading    reading
	prefetcher prefetcher
	ledger     *ledger // nil without ResidentOptions, and before the first Load; set once, under mu

	lookJob, bringJob, gateJob, downJob func(i, thread int) error // lookPart, bringPart, computeGate and computeDown
}

// heldLayer is what is held of one layer.
type heldLayer struct {
	number int
	arenas []*arena.Arena // by part; nil until a plan owns something of it. Changed by Load, under Holder.mu
	pages  []slotPages    // by expert·parts+part
	locks  []sync.Mutex   // by expert·parts+part: of reading and evicting it
	count  atomic.Uint64  // of requests computed
	spent  atomic.Int64   // ns

	hits, misses, majorFaults atomic.Uint64
	missBytes, bytesRead      atomic.Int64
}

// NewHolder gives a holder of nothing.
func NewHolder(o Options) *Holder {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	h := &Holder{o: o, limits: defaultLimits, layers: map[int]*heldLayer{}, loaded: map[*Shards]bool{}}
	h.prefetcher.h, h.prefetcher.wake.L = h, &h.prefetcher.mu
	// Once: each of these values takes memory.
	h.lookJob, h.bringJob, h.gateJob, h.downJob = h.lookPart, h.bringPart, h.computeGate, h.computeDown
	return h
}

// open maps an arena, once.
func (h *Holder) open(plan *Plan, number, part int) (*heldLayer, *arena.Arena, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.layers[number]
	if l == nil {
		l = &heldLayer{number: number, arenas: make([]*arena.Arena, plan.Parts), pages: make([]slotPages, plan.Experts*plan.Parts),
			locks: make([]sync.Mutex, plan.Experts*plan.Parts)}
		h.layers[number] = l
	}
	if len(l.arenas) != plan.Parts || len(l.pages) != plan.Experts*plan.Parts {
		return nil, nil, fmt.Errorf("layer %d: held are %d expert parts in %d parts, the plan has %d in %d",
			number, len(l.pages), len(l.arenas), plan.Experts*plan.Parts, plan.Parts)
	}
	if a := l.arenas[part]; a != nil {
		return l, a, nil
	}
	a, err := h.o.Store.Open(arena.Key{Layer: number, Part: part}, arena.Geometry{Slots: plan.Experts, SlotBytes: plan.Shapes[part].Bytes()})
	if err != nil {
		return nil, nil, fmt.Errorf("arena of layer %d part %d: %w", number, part, err)
	}
	l.arenas[part] = a
	h.prefer(a)
	return l, a, nil
}

// held gives a layer that something is held of, or nil.
func (h *Holder) held(layer int) *heldLayer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.layers[layer]
}

// slotOf gives the arena that a part lies in and its slot there; no arena if nothing of its layer and part is held.
func (h *Holder) slotOf(p residency.Part) (a *arena.Arena, slot int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.layers[p.Layer]
	if l == nil || int64(p.ID) >= int64(len(l.pages)) {
		return nil, 0
	}
	return l.arenas[int(p.ID)%len(l.arenas)], int(p.ID) / len(l.arenas)
}

// lockOf gives the lock of a part that is held.
func (h *Holder) lockOf(p residency.Part) *sync.Mutex { return &h.held(p.Layer).locks[p.ID] }

// GiveBack gives back every slot that is held and that none of the kept shards owns. Other shards refuse work from now on; one that
// computes is waited for, and the kept ones can be computed meanwhile. An error leaves some slots held.
func (h *Holder) GiveBack(keep ...*Shards) error {
	plans := make([]*Plan, len(keep))
	for i, s := range keep {
		plans[i] = s.plan
	}
	h.retire(keep)
	return h.giveBack(plans)
}

// retire ends all shards but the kept ones, after the Compute in progress.
func (h *Holder) retire(keep []*Shards) {
	h.computing.Lock()
	defer h.computing.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.loaded {
		if !slices.Contains(keep, s) {
			s.retired = true
			delete(h.loaded, s)
		}
	}
}

// giveBack punches what none of the plans owns.
func (h *Holder) giveBack(plans []*Plan) error {
	h.mu.Lock()
	held := slices.Collect(maps.Values(h.layers))
	h.mu.Unlock()
	var errs []error
	for _, l := range held {
		owned := make([]bool, len(l.pages))
		for _, p := range plans {
			p.own(l.number, owned)
		}
		for part, a := range l.arenas {
			if a != nil {
				errs = append(errs, h.punch(l, a, part, owned))
			}
		}
	}
	return errors.Join(errs...)
}

// punch gives back the valid slots of an arena that are not owned.
func (h *Holder) punch(l *heldLayer, a *arena.Arena, part int, owned []bool) error {
	parts := len(l.arenas)
	var slots []int
	for expert := range len(owned) / parts {
		if id := expert*parts + part; a.Valid(expert) && !owned[id] {
			slots = append(slots, expert)
			h.pages.forget(&l.pages[id])
		}
	}
	if len(slots) == 0 {
		return nil
	}
	if h.ledger != nil {
		defer func() { // whether or not it could be punched: nobody owns it
			for _, expert := range slots {
				h.ledger.remove(residency.Part{Layer: l.number, ID: uint32(expert*parts + part)})
			}
		}()
	}
	if err := a.Punch(slots...); err != nil {
		return fmt.Errorf("give back %d experts of layer %d part %d: %w", len(slots), l.number, part, err)
	}
	return nil
}

// Pages counts the pages of what is held by where they lay when last looked at: after loading, and when a part was read later.
func (h *Holder) Pages() transport.PagesReport { return h.pages.report() }

// Results is the number of the last result: what Resident gives afterwards knows of it.
func (h *Holder) Results() uint64 { return h.results.Load() }

// Resident gives for each layer which expert parts of some shards are in memory as a whole: by the ledger, or as the kernel says.
func (h *Holder) Resident(of ...*Shards) []transport.LayerBitmap {
	bits := map[int][]byte{}
	bytes := int64(0)
	for _, s := range of {
		for _, pl := range s.plan.Layers {
			l := s.layers[pl.Number]
			if bits[pl.Number] == nil {
				bits[pl.Number] = make([]byte, (len(l.owned)+7)/8)
			}
			b := bits[pl.Number]
			for _, id := range pl.Owned {
				if b[id/8]&(1<<(id%8)) == 0 && h.inMemory(l, id) {
					bytes += s.bytes(residency.Part{Layer: pl.Number, ID: id})
					b[id/8] |= 1 << (id % 8)
				}
			}
		}
	}
	h.resident.Store(bytes)
	var all []transport.LayerBitmap
	for _, number := range slices.Sorted(maps.Keys(bits)) {
		all = append(all, transport.LayerBitmap{Layer: number, Bits: bits[number]})
	}
	return all
}

// inMemory says whether an expert part is in memory.
func (h *Holder) inMemory(l *layer, id uint32) bool {
	a, slot := l.slot(id)
	if g := h.accounts(); g != nil && a.InFile(slot) {
		return g.resident(residency.Part{Layer: l.number, ID: id})
	}
	return a.Resident(slot)
}

// BringAll brings every expert part of the shards in and verifies its checksum if that was not done since the start. Damaged ones are
// packed again; it says how many.
func (s *Shards) BringAll(ctx context.Context) (damaged int, err error) {
	h := s.h
	defer h.forgetReads()
	h.computing.Lock()
	defer h.computing.Unlock()
	for _, pl := range s.plan.Layers {
		if err := ctx.Err(); err != nil {
			return damaged, err
		}
		// Under a limit, no more at a time than there are threads: what the ledger doesn't have leaves again.
		n := len(pl.Owned)
		if h.ledger != nil {
			n = h.o.Team.Threads()
		}
		for parts := range slices.Chunk(pl.Owned, max(n, 1)) {
			c := &h.scratch
			c.parts = append(c.parts[:0], parts...)
			c.ask()
			found, err := s.bring(s.layers[pl.Number])
			if damaged += found; err != nil {
				return damaged, fmt.Errorf("layer %d: %w", pl.Number, err)
			}
			for _, id := range parts {
				if h.ledger != nil {
					h.ledger.evict(residency.Part{Layer: pl.Number, ID: id})
				}
			}
		}
	}
	return damaged, nil
}
