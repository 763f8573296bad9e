package dispatch

import (
	"math/bits"
	"time"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// attemptState is where an attempt is in its life.
type attemptState uint8

const (
	waiting attemptState = iota // sent, or about to be; owes a result
	orphan                      // no worker computes it: its items wait for an owner
	held                        // a hedge's answer that waits for the other shares of the hedge
	over                        // counted, replaced or not wanted any more
)

// attempt is a share of a call's items, each one expert part of one row, with the worker that it is sent to. Which of the call's rows
// the work's rows are is in rows.
type attempt struct {
	worker int32 // nobody: an orphan that was never sent
	state  attemptState
	number uint32 // how often its items have been sent
	work   transport.Work
	rows   []int32
	parts  []uint64 // a bit for each expert part in the share
	// distinct lists them, ascending.
	distinct []uint32

	age, quiet time.Duration // since it was sent, and since the last sign of life
	hedgeAfter time.Duration // the age at which another worker is asked, too; 0: never
	suspect    bool          // its worker is lost or silent: it is replaced as soon as others can take all of it
	since      time.Duration // when its items first had no worker (by the job's clock); -1: never
	rival      *attempt      // the attempt that this one hedges; nil: none
	hedges     []*attempt    // that hedge this one

	request uint64
	sent    time.Time
	result  *transport.Result // of a held one

	// Memory for rows when only some are sent.
	values []float32
	codes  []int8
	scales []float32
}

// reset makes an attempt empty, for parts below a number.
func (a *attempt) reset(worker int32, parts int) {
	a.worker, a.state, a.number, a.rows, a.distinct = worker, waiting, 0, a.rows[:0], a.distinct[:0]
	a.work.Offsets, a.work.Parts, a.work.Weights = a.work.Offsets[:0], a.work.Parts[:0], a.work.Weights[:0]
	words := (parts + 63) / 64
	if cap(a.parts) < words {
		a.parts = make([]uint64, words)
	}
	a.parts = a.parts[:words]
	clear(a.parts)
	a.age, a.quiet, a.hedgeAfter, a.suspect, a.since = 0, 0, 0, false, -1
	a.noHint()
	a.rival, a.hedges, a.request, a.result = nil, a.hedges[:0], 0, nil
}

// append adds one expert part of a row; rows come ascending, and parts ascending within each.
func (a *attempt) append(row int32, part uint32, weight float32) {
	if n := len(a.rows); n == 0 || a.rows[n-1] != row {
		a.rows = append(a.rows, row)
		a.work.Offsets = append(a.work.Offsets, uint32(len(a.work.Parts)))
	}
	a.work.Parts = append(a.work.Parts, part)
	a.work.Weights = append(a.work.Weights, weight)
	a.parts[part/64] |= 1 << (part % 64)
}

// finish completes the lists after the last append.
func (a *attempt) finish() {
	a.work.Offsets = append(a.work.Offsets, uint32(len(a.work.Parts)))
	for i, word := range a.parts {
		for ; word != 0; word &= word - 1 {
			a.distinct = append(a.distinct, uint32(i*64+bits.TrailingZeros64(word)))
		}
	}
}

// fill gives the work its rows' activations: the call's own memory if all rows are needed, else a copy of those that are.
func (a *attempt) fill(c *engine.ExpertCall) {
	w, x := &a.work, c.Rows
	w.Layer, w.Rows, w.Hidden, w.Quantized = c.Layer, len(a.rows), x.Columns, x.Quantized
	if len(a.rows) == x.Rows {
		w.Values, w.Codes, w.Scales = x.Values, x.Codes, x.Scales
		return
	}
	if x.Quantized {
		a.codes = take(a.codes, x.Codes, a.rows, kernels.PaddedColumns(x.Columns))
		a.scales = take(a.scales, x.Scales, a.rows, kernels.Groups(x.Columns))
		w.Values, w.Codes, w.Scales = nil, a.codes, a.scales
		return
	}
	a.values = take(a.values, x.Values, a.rows, x.Columns)
	w.Values, w.Codes, w.Scales = a.values, nil, nil
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
