package shard

import (
	"fmt"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// check refuses work whose sizes disagree with each other or with the model, or that names expert parts which are not owned.
// Everything that Compute indexes with is checked here.
func (s *Shards) check(w *transport.Work) (*layer, error) {
	hidden := s.plan.Shapes[0].Hidden
	malformed := func(format string, args ...any) error {
		return &transport.RemoteError{Code: transport.CodeMalformed, Message: fmt.Sprintf("work of layer %d: ", w.Layer) + fmt.Sprintf(format, args...)}
	}
	if w.Rows < 1 || w.Hidden != hidden {
		return nil, malformed("%d rows of %d columns, the model has %d columns", w.Rows, w.Hidden, hidden)
	}
	if w.Quantized != s.plan.Format.Quantized() {
		return nil, malformed("quantised rows %v, format %s wants %v", w.Quantized, s.plan.Format, !w.Quantized)
	}
	values, codes, scales := w.Rows*hidden, 0, 0
	if w.Quantized {
		values, codes, scales = 0, w.Rows*kernels.PaddedColumns(hidden), w.Rows*kernels.Groups(hidden)
	}
	if len(w.Values) != values || len(w.Codes) != codes || len(w.Scales) != scales {
		return nil, malformed("%d values, %d codes, %d scales, expected %d, %d, %d", len(w.Values), len(w.Codes), len(w.Scales), values, codes, scales)
	}
	for _, c := range w.Codes {
		if c == -128 {
			return nil, malformed("code -128: codes lie in [-127, 127]")
		}
	}
	if len(w.Offsets) != w.Rows+1 || len(w.Weights) != len(w.Parts) {
		return nil, malformed("%d offsets, %d parts, %d weights of %d rows", len(w.Offsets), len(w.Parts), len(w.Weights), w.Rows)
	}
	if w.Offsets[0] != 0 || int64(w.Offsets[w.Rows]) != int64(len(w.Parts)) {
		return nil, malformed("offsets run from %d to %d over %d parts", w.Offsets[0], w.Offsets[w.Rows], len(w.Parts))
	}
	l := s.layers[w.Layer]
	if l == nil {
		return nil, &transport.RemoteError{Code: transport.CodeNotOwned, Message: fmt.Sprintf("no expert part of layer %d is owned here", w.Layer)}
	}
	for r := range w.Rows {
		from, to := w.Offsets[r], w.Offsets[r+1]
		if from > to || int64(to) > int64(len(w.Parts)) {
			return nil, malformed("offsets of row %d: %d to %d", r, from, to)
		}
		for i := from; i < to; i++ {
			id := w.Parts[i]
			if i > from && w.Parts[i-1] >= id {
				return nil, malformed("expert parts of row %d are not ascending", r)
			}
			if int64(id) >= int64(len(l.owned)) || !l.owned[id] {
				return nil, &transport.RemoteError{Code: transport.CodeNotOwned,
					Message: fmt.Sprintf("layer %d: expert part %d is not owned here", w.Layer, id)}
			}
		}
	}
	return l, s.checkLists(w, malformed)
}

// checkLists refuses lists of expert parts that are not ascending or name parts that the model doesn't have. Parts that are not owned (any more)
// may be named there: a budget's decision is older than the work. Hints are taken for what they are (prefetch.go).
func (s *Shards) checkLists(w *transport.Work, malformed func(string, ...any) error) error {
	if err := s.checkList(w.Filled); err != nil {
		return malformed("filled: %v", err)
	}
	for _, cut := range w.Cut {
		if err := s.checkList(cut.Parts); err != nil {
			return malformed("cut of layer %d: %v", cut.Layer, err)
		}
	}
	return nil
}

func (s *Shards) checkList(parts []uint32) error {
	for i, id := range parts {
		if i > 0 && parts[i-1] >= id {
			return fmt.Errorf("expert parts are not ascending at %d", id)
		}
		if int64(id) >= int64(s.plan.Experts)*int64(s.plan.Parts) {
			return fmt.Errorf("expert part %d: there are %d experts of %d parts", id, s.plan.Experts, s.plan.Parts)
		}
	}
	return nil
}
