package membership

import (
	"maps"
	"slices"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// Residency is an immutable snapshot of which expert parts are in memory.
type Residency struct {
	parts   int
	layers  map[int][]uint64 // a bit for each expert·parts+part; a layer's bits are never changed, only replaced, so snapshots share them
	readers map[int][]int32  // the number of each part's first owner; nil without a plan. It is not changed
}

// Resident says whether all parts of an expert are in memory.
func (r *Residency) Resident(layer int, expert int32) bool {
	for part := range r.parts {
		if !r.ResidentPart(layer, expert, part) {
			return false
		}
	}
	return true
}

// ResidentPart says whether one part of an expert is in memory.
func (r *Residency) ResidentPart(layer int, expert int32, part int) bool {
	item := int(expert)*r.parts + part
	bits := r.layers[layer]
	return expert >= 0 && item/64 < len(bits) && bits[item/64]>>(item%64)&1 != 0
}

// Reader is the number of the worker that would read a part of an expert: that of the first one that owns it, in the order of their ids.
func (r *Residency) Reader(layer int, expert int32, part int) int {
	item := int(expert)*r.parts + part
	readers := r.readers[layer]
	if expert < 0 || item >= len(readers) {
		return 0
	}
	return int(readers[item])
}

// readers numbers the first owners of a plan's expert parts.
func readers(plan *placement.Plan) map[int][]int32 {
	numbers := map[string]int32{}
	for _, id := range slices.Sorted(maps.Keys(plan.Owned)) {
		numbers[id] = int32(len(numbers))
	}
	all := make(map[int][]int32, len(plan.Owners))
	for layer, items := range plan.Owners {
		of := make([]int32, len(items))
		for item, owners := range items {
			if len(owners) > 0 {
				of[item] = numbers[owners[0]]
			}
		}
		all[layer] = of
	}
	return all
}

// ledger is the residency that is kept up to date: from beats, and from what was computed. An expert part is resident if one of its owners
// has it in memory.
type ledger struct {
	Residency
	items    int // expert parts of a layer
	plan     *placement.Plan
	reports  map[string]map[int]*layerReport // worker → layer
	snapshot *Residency                      // nil after a change
}

// layerReport is what a worker has told of a layer.
type layerReport struct {
	resident []uint64 // bits: what it has in memory, owned or not
	told     []uint64 // of each part, the number of the last result that told of it
}

func (r *layerReport) has(item uint32) bool { return r != nil && has(r.resident, item) }

func newLedger(m placement.Model) *ledger {
	l := &ledger{Residency: Residency{parts: m.Parts, layers: make(map[int][]uint64, len(m.Layers))}, items: m.Experts * m.Parts,
		reports: map[string]map[int]*layerReport{}}
	for _, layer := range m.Layers {
		l.layers[layer] = make([]uint64, (l.items+63)/64)
	}
	return l
}

// take gives the present state.
func (l *ledger) take() *Residency {
	if l.snapshot == nil {
		l.snapshot = &Residency{parts: l.parts, layers: maps.Clone(l.layers), readers: l.readers}
	}
	return l.snapshot
}

func (l *ledger) set(layer int, item uint32, resident bool) {
	if has(l.layers[layer], item) == resident {
		return
	}
	if bits := slices.Clone(l.layers[layer]); put(bits, item, resident) {
		l.layers[layer], l.snapshot = bits, nil
	}
}

// put sets a bit and says whether that changed it.
func put(bits []uint64, item uint32, on bool) bool {
	at, bit := int(item/64), uint64(1)<<(item%64)
	if at >= len(bits) || (bits[at]&bit != 0) == on {
		return false
	}
	bits[at] ^= bit
	return true
}

func has(bits []uint64, item uint32) bool {
	at := int(item / 64)
	return at < len(bits) && bits[at]>>(item%64)&1 != 0
}

// place takes a plan, which says whose reports count.
func (l *ledger) place(plan *placement.Plan) {
	if plan == nil {
		return
	}
	l.plan, l.readers, l.snapshot = plan, readers(plan), nil
	for layer := range l.layers {
		for item := range plan.Owners[layer] {
			l.look(layer, uint32(item))
		}
	}
}

// look finds out whether one of an expert part's owners has it.
func (l *ledger) look(layer int, item uint32) {
	resident := false
	if owners := l.plan.Owners[layer]; int(item) < len(owners) {
		for _, worker := range owners[item] {
			resident = resident || l.reports[worker][layer].has(item)
		}
	}
	l.set(layer, item, resident)
}

// report takes a worker's own bitmaps, which know of its results up to a number: what later ones told stays, as do layers that it doesn't name.
func (l *ledger) report(worker string, resident []transport.LayerBitmap, results uint64) {
	for i := range resident {
		b := &resident[i]
		r := l.of(worker, b.Layer)
		if r == nil {
			continue // no layer with experts
		}
		for item, told := range r.told {
			if told <= results {
				put(r.resident, uint32(item), item/8 < len(b.Bits) && b.Bits[item/8]>>(item%8)&1 != 0)
			}
		}
		l.lookAll(worker, b.Layer)
	}
}

// of is a worker's report of a layer, nil if there is no such layer.
func (l *ledger) of(worker string, layer int) *layerReport {
	if l.layers[layer] == nil {
		return nil
	}
	layers := l.reports[worker]
	if layers == nil {
		layers = map[int]*layerReport{}
		l.reports[worker] = layers
	}
	if layers[layer] == nil {
		layers[layer] = &layerReport{make([]uint64, (l.items+63)/64), make([]uint64, l.items)}
	}
	return layers[layer]
}

func (l *ledger) lookAll(worker string, layer int) {
	if l.plan == nil {
		return
	}
	for _, item := range l.plan.Owned[worker][layer] {
		l.look(layer, item)
	}
}

// change notes that by its result of a number, a worker has expert parts in memory now, or no longer.
func (l *ledger) change(worker string, layer int, items []uint32, resident bool, result uint64) {
	r := l.of(worker, layer)
	if r == nil {
		return // no layer with experts
	}
	for _, item := range items {
		if int(item) >= len(r.told) {
			continue
		}
		r.told[item] = result
		if put(r.resident, item, resident) && l.plan != nil {
			l.look(layer, item)
		}
	}
}

// forget notes that a worker has nothing in memory.
func (l *ledger) forget(worker string) {
	delete(l.reports, worker)
	if l.plan != nil {
		for layer := range l.plan.Owned[worker] {
			l.lookAll(worker, layer)
		}
	}
}

// resident counts the owned expert parts of a worker that it has in memory.
func (l *ledger) resident(worker string) (parts int) {
	if l.plan == nil {
		return 0
	}
	for layer, items := range l.plan.Owned[worker] {
		r := l.reports[worker][layer]
		for _, item := range items {
			if r.has(item) {
				parts++
			}
		}
	}
	return parts
}
