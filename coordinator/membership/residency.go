package membership

import (
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// Residency is an immutable snapshot of which expert parts are in memory.
type Residency struct {
	parts  int
	layers map[int][]uint64 // a bit for each expert·parts+part
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

// ledger is the residency that is kept up to date: from beats, and from what was computed.
type ledger struct {
	Residency
	snapshot *Residency // nil after a change
}

func newLedger(m placement.Model) *ledger {
	l := &ledger{Residency: Residency{parts: m.Parts, layers: make(map[int][]uint64, len(m.Layers))}}
	for _, layer := range m.Layers {
		l.layers[layer] = make([]uint64, (m.Experts*m.Parts+63)/64)
	}
	return l
}

// take gives the present state.
func (l *ledger) take() *Residency {
	if l.snapshot == nil {
		s := &Residency{parts: l.parts, layers: make(map[int][]uint64, len(l.layers))}
		for layer, bits := range l.layers {
			s.layers[layer] = append([]uint64(nil), bits...)
		}
		l.snapshot = s
	}
	return l.snapshot
}

func (l *ledger) set(layer int, item uint32, resident bool) {
	bits := l.layers[layer]
	at, bit := int(item/64), uint64(1)<<(item%64)
	if at >= len(bits) || (bits[at]&bit != 0) == resident {
		return
	}
	bits[at] ^= bit
	l.snapshot = nil
}

// report takes a worker's own bitmaps, of the parts that it owns; layers that it doesn't name stay as they are.
func (l *ledger) report(owned map[int][]uint32, resident []transport.LayerBitmap) {
	for _, b := range resident {
		for _, item := range owned[b.Layer] {
			l.set(b.Layer, item, int(item/8) < len(b.Bits) && b.Bits[item/8]>>(item%8)&1 != 0)
		}
	}
}

// forget notes that a worker's parts are in nobody's memory.
func (l *ledger) forget(owned map[int][]uint32) {
	for layer, items := range owned {
		for _, item := range items {
			l.set(layer, item, false)
		}
	}
}
