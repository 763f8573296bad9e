package dispatch

import (
	"slices"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/transport"
)

// cuts keeps for each worker which of its expert parts the budget has dropped since it was sent work: a worker that keeps a ledger is told, with
// its next work, and so knows what it would have had to read without the budget. What is cut for a worker that gets no work any more is
// told to nobody.
type cuts struct{ of [][]transport.LayerParts } // by worker, in the order in which it was cut

// add notes what a call lacks. An expert part that several workers hold is the first one's that can be used.
func (c *cuts) add(call *engine.ExpertCall, layer *layerOwners, parts int, v *view) {
	for _, expert := range call.Cut {
		for part := int(expert) * parts; part < (int(expert)+1)*parts && part < len(layer.first); part++ {
			if owner := v.first(layer.of(uint32(part))); owner != nobody {
				c.note(owner, call.Layer, uint32(part))
			}
		}
	}
}

// mostCuts is how many lists a worker is told of at once: the oldest ones are forgotten.
const mostCuts = transport.MaxLayers

// note adds an expert part; those of a call come in ascending order.
func (c *cuts) note(worker int32, layer int, part uint32) {
	for int(worker) >= len(c.of) {
		c.of = append(c.of, nil)
	}
	lists := &c.of[worker]
	n := len(*lists)
	if n == 0 || (*lists)[n-1].Layer != layer || last((*lists)[n-1].Parts) >= part {
		if n == mostCuts {
			oldest := (*lists)[0]
			copy(*lists, (*lists)[1:])
			n--
			(*lists)[n] = oldest
			*lists = (*lists)[:n]
		}
		*lists = slices.Grow(*lists, 1)[:n+1] // with the memory of a former list
		(*lists)[n].Layer, (*lists)[n].Parts = layer, (*lists)[n].Parts[:0]
		n++
	}
	l := &(*lists)[n-1]
	l.Parts = append(l.Parts, part)
}

func last(parts []uint32) uint32 { return parts[len(parts)-1] }

// tell gives a work what was cut, and takes it out: it was told. What is in the work's memory is used again.
func (c *cuts) tell(worker int32, w *transport.Work) {
	w.Cut = w.Cut[:0]
	c.untold(worker, w)
}

// untold takes back what a work could not tell.
func (c *cuts) untold(worker int32, w *transport.Work) {
	if int(worker) < len(c.of) {
		w.Cut, c.of[worker] = c.of[worker], w.Cut
	}
}

// filled lists the expert parts of an attempt that rows have only in place of others.
func (a *attempt) filled(experts []int32, parts int) {
	a.work.Filled = a.work.Filled[:0]
	for _, expert := range experts {
		at, _ := slices.BinarySearch(a.distinct, uint32(int(expert)*parts))
		for ; at < len(a.distinct) && int(a.distinct[at])/parts == int(expert); at++ {
			a.work.Filled = append(a.work.Filled, a.distinct[at])
		}
	}
}
