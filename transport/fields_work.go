package transport

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/moepool/moepool/kernels"
)

// workFrame is a Work with the instance that it is meant for ("" is whoever has the id).
type workFrame struct {
	target string
	work   *Work
}

// fields keeps request and attempt first, so that an error reply can name them whatever else is wrong.
func (f *workFrame) fields(w *wire) {
	m := f.work
	if w.reading {
		m.Request, m.Attempt = 0, 0
	}
	w.array("work", 18)
	w.uint64(&m.Request, "request", math.MaxUint64)
	w.uint32(&m.Attempt, "attempt")
	w.string(&f.target, "target", maxText)
	w.uint64(&m.Epoch, "epoch", math.MaxUint64)
	w.uint64(&m.Term, "term", math.MaxUint64)
	w.int(&m.Layer, "layer", 0, MaxLayers)
	w.int(&m.Rows, "rows", 1, MaxRows)
	w.int(&m.Hidden, "hidden", 1, MaxHidden)
	w.bool(&m.Quantized, "quantized")
	if w.err != nil {
		return
	}
	rows, values, codes, scales := uint64(m.Rows), uint64(m.Hidden), uint64(0), uint64(0)
	if m.Quantized {
		values, codes, scales = 0, uint64(kernels.PaddedColumns(m.Hidden)), uint64(kernels.Groups(m.Hidden))
	}
	tensor(w, &m.Values, "values", rows*values)
	tensor(w, &m.Codes, "codes", rows*codes)
	tensor(w, &m.Scales, "scales", rows*scales)
	tensor(w, &m.Offsets, "offsets", rows+1)
	list(w, &m.Parts, "parts", MaxRows*MaxPartsOfRow)
	tensor(w, &m.Weights, "weights", uint64(len(m.Parts)))
	layerLists(w, &m.Cut, "cut")
	list(w, &m.Filled, "filled", MaxLayerParts)
	m.Hint.anyOrder(w, "hint")
	m.check(w)
}

// check is what lengths alone don't say.
func (m *Work) check(w *wire) {
	if w.err != nil {
		return
	}
	// Kernels negate codes as int8: −128 has no negative.
	if i := bytes.IndexByte(asBytes(m.Codes), 0x80); i >= 0 {
		w.fail("codes", "-128 at %d; codes are in [-127, 127]", i)
		return
	}
	if checkAscending(w, m.Filled, "filled"); w.err != nil {
		return
	}
	if m.Offsets[0] != 0 || m.Offsets[m.Rows] != uint32(len(m.Parts)) {
		w.fail("offsets", "go from %d to %d, not from 0 to %d", m.Offsets[0], m.Offsets[m.Rows], len(m.Parts))
		return
	}
	for row := range m.Rows {
		from, to := m.Offsets[row], m.Offsets[row+1]
		if from > to || to > uint32(len(m.Parts)) || to-from > MaxPartsOfRow {
			w.fail("offsets", "row %d has parts [%d, %d) of %d; at most %d", row, from, to, len(m.Parts), MaxPartsOfRow)
			return
		}
		for i := from; i+1 < to; i++ {
			if m.Parts[i] >= m.Parts[i+1] {
				w.fail("parts", "row %d: %d follows %d; they must ascend", row, m.Parts[i+1], m.Parts[i])
				return
			}
		}
		if from < to && m.Parts[to-1] >= MaxLayerParts {
			w.fail("parts", "row %d: %d is above the limit %d", row, m.Parts[to-1], MaxLayerParts-1)
			return
		}
	}
}

// fields stores Sum with 4 bytes per element in rows where that loses nothing, else with 8; wide has a bit for each of the
// latter.
func (m *Result) fields(w *wire) {
	w.array("result", 18)
	w.uint64(&m.Request, "request", math.MaxUint64)
	w.uint32(&m.Attempt, "attempt")
	w.int(&m.Rows, "rows", 1, MaxRows)
	w.int(&m.Hidden, "hidden", 1, MaxHidden)
	m.sumFields(w)
	errors := uint64(0)
	if w.reading {
		ahead := *w
		if errors = uint64(len(ahead.takeBin("row errors"))); errors != 0 {
			errors = uint64(m.Rows)
		}
	} else if len(m.RowErrors) != 0 {
		errors = uint64(m.Rows)
	}
	tensor(w, &m.RowErrors, "row errors", errors)
	list(w, &m.Parts, "parts", MaxLayerParts)
	tensor(w, &m.Hits, "hits", uint64(len(m.Parts)+7)/8)
	w.int64(&m.BytesRead, "bytes read", 0, math.MaxInt64)
	w.int64(&m.MissBytes, "miss bytes", 0, math.MaxInt64)
	w.int64(&m.GhostBytes, "ghost bytes", -1, math.MaxInt64)
	w.int64(&m.MajorFaults, "major faults", 0, math.MaxInt64)
	layerLists(w, &m.Arrived, "arrived")
	layerLists(w, &m.Evicted, "evicted")
	w.uint64(&m.Number, "number", math.MaxUint64)
	w.int64(&m.ComputeTime, "compute time", 0, math.MaxInt64)
	w.int64(&m.QueueTime, "queue time", 0, math.MaxInt64)
	if w.err != nil {
		return
	}
	for row, e := range m.RowErrors {
		if e > RowOverflow {
			w.fail("row errors", "row %d has the unknown code %d", row, e)
			return
		}
	}
	checkAscending(w, m.Parts, "parts")
}

func (m *Result) sumFields(w *wire) {
	if w.err != nil {
		return
	}
	if w.reading {
		m.readSums(w)
		return
	}
	rows, hidden := m.Rows, m.Hidden
	if len(m.Sum) != rows*hidden {
		w.fail("sum", "%d elements, the message's sizes say %d", len(m.Sum), rows*hidden)
		return
	}
	w.appendBin(uint64(rows+7) / 8)
	wide := len(w.buf)
	w.buf = append(w.buf, zeros[:(rows+7)/8]...)
	// The length is known at the end: its head has the longest form.
	w.buf = append(w.buf, 0xc6, 0, 0, 0, 0)
	at := len(w.buf)
	for row := range rows {
		sum, narrow := m.Sum[row*hidden:(row+1)*hidden], false
		if w.buf, narrow = appendInt32(w.buf, sum); !narrow {
			w.buf = appendInt64(w.buf, sum)
			w.buf[wide+row/8] |= 1 << (row % 8)
		}
	}
	bytes := len(w.buf) - at
	if bytes > MaxMessage {
		w.fail("sum", "%d bytes are above the limit %d", bytes, MaxMessage)
		return
	}
	binary.BigEndian.PutUint32(w.buf[at-4:], uint32(bytes))
}

func (m *Result) readSums(w *wire) {
	wide := w.takeBin("wide rows")
	if w.err == nil && len(wide) != (m.Rows+7)/8 {
		w.fail("wide rows", "%d bytes for %d rows", len(wide), m.Rows)
	}
	b := w.takeBin("sum")
	if w.err != nil {
		return
	}
	bytes := uint64(0)
	for row := range m.Rows {
		bytes += uint64(m.Hidden) * (4 + 4*uint64(wide[row/8]>>(row%8)&1))
	}
	if uint64(len(b)) != bytes {
		w.fail("sum", "%d bytes, the message's sizes say %d", len(b), bytes)
		return
	}
	m.Sum = resize(m.Sum, m.Rows*m.Hidden)
	for row := range m.Rows {
		sum := m.Sum[row*m.Hidden : (row+1)*m.Hidden]
		if wide[row/8]>>(row%8)&1 != 0 {
			b = takeInt64(sum, b)
		} else {
			b = takeInt32(sum, b)
		}
	}
}

// workID names the Work that a progress report or an error belongs to.
type workID struct {
	request uint64
	attempt uint32
}

// progress says that a Work is still being computed, or waits.
type progress struct{ workID }

func (m *progress) fields(w *wire) {
	w.array("progress", 2)
	w.uint64(&m.request, "request", math.MaxUint64)
	w.uint32(&m.attempt, "attempt")
}

// failure is an error reply; request is 0 where the message that failed didn't get that far.
type failure struct {
	workID
	code    ErrorCode
	message string
}

func (m *failure) fields(w *wire) {
	w.array("error", 4)
	w.uint64(&m.request, "request", math.MaxUint64)
	w.uint32(&m.attempt, "attempt")
	w.string((*string)(&m.code), "code", maxText)
	if !w.reading && len(m.message) > maxText {
		m.message = m.message[:maxText]
	}
	w.string(&m.message, "message", maxText)
}
