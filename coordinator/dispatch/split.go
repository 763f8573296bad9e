package dispatch

import (
	"fmt"
	"slices"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// owners is a plan with workers as numbers, in order of their ids.
type owners struct {
	plan    *placement.Plan
	workers []string
	layers  map[int][]int32 // layer → expert·parts+part → number
}

func newOwners(plan *placement.Plan) (*owners, error) {
	o := &owners{plan: plan, layers: make(map[int][]int32, len(plan.Owners))}
	for id := range plan.Owned {
		o.workers = append(o.workers, id)
	}
	slices.Sort(o.workers)
	for layer, items := range plan.Owners {
		numbers := make([]int32, len(items))
		for item, ids := range items {
			if len(ids) == 0 {
				return nil, fmt.Errorf("placement of layer %d: part %d belongs to nobody", layer, item)
			}
			id := ids[0] // the primary
			n, ok := slices.BinarySearch(o.workers, id)
			if !ok {
				return nil, fmt.Errorf("placement of layer %d: part %d belongs to %q, which owns nothing", layer, item, id)
			}
			numbers[item] = int32(n)
		}
		o.layers[layer] = numbers
	}
	return o, nil
}

// share is what one worker has to do of a layer: the work, and which of the call's rows its rows are.
type share struct {
	worker   int // number
	work     transport.Work
	rows     []int32
	distinct []uint32 // expert parts, ascending
	// Memory for rows when only some are sent.
	values []float32
	codes  []int8
	scales []float32
}

// splitter divides calls by owner. Its memory is reused from call to call.
type splitter struct {
	shares []share // one per worker
	active []int   // numbers of the workers that have something to do, ascending
	seen   []uint32
	call   uint32 // seen[part] == call: the part is in its share's distinct
}

// split fills the shares of one call. parts is how many parts an expert has. Rows that have an error are left out.
func (s *splitter) split(o *owners, parts int, c *engine.ExpertCall) error {
	owner, ok := o.layers[c.Layer]
	if !ok {
		return fmt.Errorf("layer %d has no experts in the placement", c.Layer)
	}
	s.reset(len(o.workers), len(owner))
	for row := range c.Choices {
		if c.RowErr[row] != nil {
			continue
		}
		choice := &c.Choices[row]
		for i, expert := range choice.Experts {
			first := int(expert) * parts
			if expert < 0 || first+parts > len(owner) {
				return fmt.Errorf("layer %d, row %d: there is no expert %d; the placement has %d", c.Layer, row, expert, len(owner)/parts)
			}
			for part := first; part < first+parts; part++ {
				s.add(int(owner[part]), int32(row), uint32(part), choice.Weights[i])
			}
		}
	}
	for i := range s.shares {
		if h := &s.shares[i]; len(h.rows) > 0 {
			h.fill(c)
			s.active = append(s.active, i)
		}
	}
	return nil
}

func (s *splitter) reset(workers, items int) {
	if len(s.shares) != workers {
		s.shares = make([]share, workers)
	}
	s.active = s.active[:0]
	if s.call++; len(s.seen) != items || s.call == 0 {
		s.seen, s.call = make([]uint32, items), 1
	}
	for i := range s.shares {
		h := &s.shares[i]
		h.worker, h.rows, h.distinct = i, h.rows[:0], h.distinct[:0]
		h.work.Offsets, h.work.Parts, h.work.Weights = h.work.Offsets[:0], h.work.Parts[:0], h.work.Weights[:0]
	}
}

// add gives a worker one expert part of a row; rows come ascending, and parts ascending within each.
func (s *splitter) add(worker int, row int32, part uint32, weight float32) {
	h := &s.shares[worker]
	if n := len(h.rows); n == 0 || h.rows[n-1] != row {
		h.rows = append(h.rows, row)
		h.work.Offsets = append(h.work.Offsets, uint32(len(h.work.Parts)))
	}
	h.work.Parts = append(h.work.Parts, part)
	h.work.Weights = append(h.work.Weights, weight)
	if s.seen[part] != s.call {
		s.seen[part] = s.call
		h.distinct = append(h.distinct, part)
	}
}

// fill completes the work with its rows' activations: the call's own memory if all rows are needed, else a copy of those that are.
func (h *share) fill(c *engine.ExpertCall) {
	w, x := &h.work, c.Rows
	slices.Sort(h.distinct)
	w.Offsets = append(w.Offsets, uint32(len(w.Parts)))
	w.Layer, w.Rows, w.Hidden, w.Quantized = c.Layer, len(h.rows), x.Columns, x.Quantized
	if len(h.rows) == x.Rows {
		w.Values, w.Codes, w.Scales = x.Values, x.Codes, x.Scales
		return
	}
	if x.Quantized {
		h.codes = take(h.codes, x.Codes, h.rows, kernels.PaddedColumns(x.Columns))
		h.scales = take(h.scales, x.Scales, h.rows, kernels.Groups(x.Columns))
		w.Values, w.Codes, w.Scales = nil, h.codes, h.scales
		return
	}
	h.values = take(h.values, x.Values, h.rows, x.Columns)
	w.Values, w.Codes, w.Scales = h.values, nil, nil
}

// take copies some rows of width elements into dst's memory.
func take[T any](dst, src []T, rows []int32, width int) []T {
	dst = dst[:0]
	for _, row := range rows {
		at := int(row) * width
		dst = append(dst, src[at:at+width]...)
	}
	return dst
}
