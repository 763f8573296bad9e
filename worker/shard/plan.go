package shard

import (
	"fmt"
	"slices"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// Plan is what one worker owns, checked against the model.
type Plan struct {
	Format  kernels.Format
	Experts int
	Parts   int
	Shapes  []kernels.ExpertShape // of each part
	Layers  []PlanLayer           // ascending by number
	Bytes   int64                 // packed bytes of all owned expert parts
	Count   int                   // of owned expert parts
}

// PlanLayer is what the worker owns of one layer.
type PlanLayer struct {
	Number int
	Owned  []uint32 // expert·parts+part, ascending
	Slots  [][]int  // for each part, the owned experts, ascending
}

// NewPlan checks owned expert parts against the model's configuration.
func NewPlan(c *checkpoint.Config, f kernels.Format, parts int, layers []transport.LayerParts) (*Plan, error) {
	if most := kernels.MaxParts(f, c.ExpertIntermediate); parts < 1 || parts > most {
		return nil, fmt.Errorf("%d parts: experts with %d intermediate columns can be divided into 1 to %d", parts, c.ExpertIntermediate, most)
	}
	p := &Plan{Format: f, Experts: c.Experts, Parts: parts}
	for part := range parts {
		from, to := kernels.PartRange(f, c.ExpertIntermediate, parts, part)
		p.Shapes = append(p.Shapes, kernels.ExpertShape{Format: f, Hidden: c.Hidden, Intermediate: to - from})
	}
	for _, l := range layers {
		if l.Layer < 0 || l.Layer >= len(c.Layers) || !c.Layers[l.Layer].MoE {
			return nil, fmt.Errorf("layer %d has no experts (the model has %d layers)", l.Layer, len(c.Layers))
		}
		layer := PlanLayer{Number: l.Layer, Owned: slices.Clone(l.Parts), Slots: make([][]int, parts)}
		for i, id := range l.Parts {
			if int64(id) >= int64(c.Experts)*int64(parts) {
				return nil, fmt.Errorf("layer %d: expert part %d: there are %d experts of %d parts", l.Layer, id, c.Experts, parts)
			}
			if i > 0 && l.Parts[i-1] >= id {
				return nil, fmt.Errorf("layer %d: expert parts are not ascending at %d", l.Layer, id)
			}
			part := int(id) % parts
			layer.Slots[part] = append(layer.Slots[part], int(id)/parts)
			p.Bytes += int64(p.Shapes[part].Bytes())
			p.Count++
		}
		p.Layers = append(p.Layers, layer)
	}
	slices.SortFunc(p.Layers, func(a, b PlanLayer) int { return a.Number - b.Number })
	for i := 1; i < len(p.Layers); i++ {
		if p.Layers[i].Number == p.Layers[i-1].Number {
			return nil, fmt.Errorf("layer %d is listed twice", p.Layers[i].Number)
		}
	}
	return p, nil
}

// own marks what the plan owns of a layer, by expert·parts+part.
func (p *Plan) own(number int, owned []bool) {
	if i, ok := slices.BinarySearchFunc(p.Layers, number, func(l PlanLayer, n int) int { return l.Number - n }); ok {
		for _, id := range p.Layers[i].Owned {
			owned[id] = true
		}
	}
}

// Whole is the list of all expert parts of a model, as one worker alone owns them.
func Whole(c *checkpoint.Config, parts int) []transport.LayerParts {
	var layers []transport.LayerParts
	for number, l := range c.Layers {
		if !l.MoE {
			continue
		}
		all := transport.LayerParts{Layer: number}
		for id := range c.Experts * parts {
			all.Parts = append(all.Parts, uint32(id))
		}
		layers = append(layers, all)
	}
	return layers
}
