package worker

import (
	"cmp"
	"slices"
	"sync"

	"github.com/moepool/moepool/residency"
)

// popularity counts how often each expert part is needed, over a much longer time than a ledger looks back: what is hot now need not be
// what the next run should begin with.
type popularity struct {
	mu      sync.Mutex
	layers  map[int]*layerUses
	changed bool // since the last look at hottest
}

// layerUses is what is known of one layer.
type layerUses struct {
	visits float64   // requests
	uses   []float64 // by expert part: those of the requests that needed it
}

const (
	// memoryVisits is how many requests of a layer are remembered: at twice as many all counts are halved.
	memoryVisits = 1 << 13
	// seedVisits is how many requests a profile of earlier runs counts for.
	seedVisits = 1 << 9
)

func newPopularity() *popularity { return &popularity{layers: map[int]*layerUses{}} }

// note counts one request of a layer.
func (p *popularity) note(layer int, parts []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of(layer)
	l.visits++
	for _, id := range parts {
		l.at(id)
		l.uses[id]++
	}
	if l.visits >= 2*memoryVisits {
		l.visits /= 2
		for i := range l.uses {
			l.uses[i] /= 2
		}
	}
	p.changed = true
}

func (p *popularity) of(layer int) *layerUses {
	l := p.layers[layer]
	if l == nil {
		l = &layerUses{}
		p.layers[layer] = l
	}
	return l
}

// at makes room for a part.
func (l *layerUses) at(id uint32) {
	if n := int(id) + 1 - len(l.uses); n > 0 {
		l.uses = append(l.uses, make([]float64, n)...)
	}
}

// seed begins with what earlier runs needed.
func (p *popularity) seed(profile []residency.Heat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range profile {
		l := p.of(h.Layer)
		l.visits = max(l.visits, seedVisits)
		l.at(h.ID)
		l.uses[h.ID] += h.Heat * seedVisits
	}
}

// hottest lists the parts that were needed, those of the highest share of their layer's requests first; of equal ones the lower layer and id.
// changed: something was counted since the last look.
func (p *popularity) hottest() (list []residency.Heat, changed bool) {
	list, changed = p.heats()
	slices.SortFunc(list, func(a, b residency.Heat) int {
		return cmp.Or(cmp.Compare(b.Heat, a.Heat), cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.ID, b.ID))
	})
	return list, changed
}

// heats lists the same in no order.
func (p *popularity) heats() (list []residency.Heat, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed, p.changed = p.changed, false
	for number, l := range p.layers {
		for id, uses := range l.uses {
			if uses > 0 {
				list = append(list, residency.Heat{Part: residency.Part{Layer: number, ID: uint32(id)}, Heat: min(1, uses/l.visits)})
			}
		}
	}
	return list, changed
}

// touch makes the next look at hottest say that something has changed.
func (p *popularity) touch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = true
}
