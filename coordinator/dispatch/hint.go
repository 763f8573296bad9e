package dispatch

import (
	"cmp"
	"slices"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/transport"
)

// mostHinted is the most expert parts that one worker is told of beside a work. Between two layers a disk has time to read a few.
const mostHinted = 64

// hints is the memory of the hints of one call.
type hints struct {
	mass    []float64 // by expert of the predicted layer
	experts []int32   // that were predicted, the most likely ones first
}

// predicted lists the experts of a prediction in the order of the combine weight that they would have. Ids that the layer doesn't have are
// left out.
func (h *hints) predicted(next *engine.Prediction, experts int) []int32 {
	h.mass, h.experts = resize(h.mass, experts), h.experts[:0]
	clear(h.mass)
	for row := range next.Choices {
		choice := &next.Choices[row]
		for i, expert := range choice.Experts {
			if expert < 0 || int(expert) >= experts {
				continue
			}
			if h.mass[expert] == 0 {
				h.experts = append(h.experts, expert)
			}
			h.mass[expert] += max(float64(choice.Weights[i]), 1e-30)
		}
	}
	slices.SortFunc(h.experts, func(a, b int32) int {
		return cmp.Or(cmp.Compare(h.mass[b], h.mass[a]), cmp.Compare(a, b))
	})
	return h.experts
}

// hint gives the attempts that were just made the expert parts of a later layer that its worker will probably be asked for and doesn't have in
// memory. Workers that have nothing to do in this layer are told nothing: they would be sent a message for what may never be needed.
func (d *Dispatcher) hint(call *engine.ExpertCall) {
	next, layer := &call.Next, d.view.owners.layers[call.Next.Layer]
	if len(next.Choices) == 0 || layer == nil {
		return
	}
	residency := d.o.Snapshot()
	if residency == nil {
		return // nothing is known
	}
	resident := func(expert, part int) bool { return residency.Resident(next.Layer, int32(expert)) }
	if p, ok := residency.(engine.PartResidency); ok {
		resident = func(expert, part int) bool { return p.ResidentPart(next.Layer, int32(expert), part) }
	}
	parts := d.o.Parts
	for _, expert := range d.hints.predicted(next, len(layer.first)/parts) {
		for part := range parts {
			if resident(int(expert), part) {
				continue
			}
			id := uint32(int(expert)*parts + part)
			if a := d.teller(layer.of(id)); a != nil && len(a.work.Hint.Parts) < mostHinted {
				a.work.Hint.Layer = next.Layer
				a.work.Hint.Parts = append(a.work.Hint.Parts, id)
			}
		}
	}
}

// teller is the attempt of the owner that will probably be asked: the first one that can be used; nil if it has nothing to do now.
func (d *Dispatcher) teller(owners []int32) *attempt {
	owner := d.view.first(owners)
	if owner == nobody {
		return nil // attempts that were never sent have that number, too
	}
	for _, a := range d.job.attempts {
		if a.worker == owner && a.state == waiting {
			return a
		}
	}
	return nil
}

// noHint takes the hint of an earlier call out.
func (a *attempt) noHint() { a.work.Hint = transport.LayerParts{Parts: a.work.Hint.Parts[:0]} }

func resize[T any](x []T, n int) []T { return slices.Grow(x[:0], n)[:n] }
