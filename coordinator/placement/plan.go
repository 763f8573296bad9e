package placement

import (
	"fmt"
	"maps"
	"slices"
)

// Bytes is what a worker owns, packed.
func (p *Plan) Bytes(m Model, worker string) int64 {
	var n int64
	for _, parts := range p.Owned[worker] {
		for _, item := range parts {
			n += m.PartBytes[int(item)%m.Parts]
		}
	}
	return n
}

// Moved is what workers have to load for p that they don't own in previous (nil: nothing): expert parts, each counted for each worker, and
// their packed bytes. previous must be of the same model.
func (p *Plan) Moved(m Model, previous *Plan) (parts int, bytes int64) {
	for worker, layers := range p.Owned {
		for layer, items := range layers {
			var had []uint32
			if previous != nil {
				had = previous.Owned[worker][layer]
			}
			for _, item := range items {
				if _, ok := slices.BinarySearch(had, item); !ok {
					parts++
					bytes += m.PartBytes[int(item)%m.Parts]
				}
			}
		}
	}
	return parts, bytes
}

// Same says whether two plans place everything alike, whatever their epochs.
func (p *Plan) Same(other *Plan) bool {
	return maps.EqualFunc(p.Owners, other.Owners, func(a, b [][]string) bool { return slices.EqualFunc(a, b, slices.Equal) }) &&
		maps.EqualFunc(p.Owned, other.Owned, func(a, b map[int][]uint32) bool { return maps.EqualFunc(a, b, slices.Equal) })
}

// Validate says what is wrong with a plan that comes from outside: every part of every expert of the model's layers must have an owner, none may
// have one twice, and Owned and Owners must say the same.
func (p *Plan) Validate(m Model) error {
	items := m.Experts * m.Parts
	if len(p.Owners) != len(m.Layers) {
		return fmt.Errorf("placement: the plan of epoch %d has %d layers, the model has %d with experts", p.Epoch, len(p.Owners), len(m.Layers))
	}
	pairs := 0 // of worker and expert part
	for _, layer := range m.Layers {
		owners, ok := p.Owners[layer]
		if !ok || len(owners) != items {
			return fmt.Errorf("placement: the plan of epoch %d has %d expert parts in layer %d, the model %d", p.Epoch, len(owners), layer, items)
		}
		for item, ids := range owners {
			if len(ids) == 0 {
				return fmt.Errorf("placement: in the plan of epoch %d nobody owns part %d of expert %d of layer %d", p.Epoch, item%m.Parts, item/m.Parts, layer)
			}
			for i, id := range ids {
				if slices.Contains(ids[:i], id) {
					return fmt.Errorf("placement: in the plan of epoch %d %q owns part %d of expert %d of layer %d twice", p.Epoch, id, item%m.Parts,
						item/m.Parts, layer)
				}
				if _, ok := slices.BinarySearch(p.Owned[id][layer], uint32(item)); !ok {
					return fmt.Errorf("placement: in the plan of epoch %d %q owns part %d of expert %d of layer %d and doesn't list it", p.Epoch, id,
						item%m.Parts, item/m.Parts, layer)
				}
			}
			pairs += len(ids)
		}
	}
	// Each owner lists its parts; so with as many entries as owners nothing else is listed.
	for _, id := range slices.Sorted(maps.Keys(p.Owned)) {
		if id == "" {
			return fmt.Errorf("placement: the plan of epoch %d has a worker without id", p.Epoch)
		}
		for layer, listed := range p.Owned[id] {
			if len(listed) == 0 {
				return fmt.Errorf("placement: the plan of epoch %d lists layer %d of %q, which owns nothing of it", p.Epoch, layer, id)
			}
			for i := 1; i < len(listed); i++ {
				if listed[i-1] >= listed[i] {
					return fmt.Errorf("placement: the plan of epoch %d lists parts of layer %d of %q that are not ascending", p.Epoch, layer, id)
				}
			}
			pairs -= len(listed)
		}
	}
	if pairs != 0 {
		return fmt.Errorf("placement: the plan of epoch %d lists %d parts that their workers don't own", p.Epoch, -pairs)
	}
	return nil
}
