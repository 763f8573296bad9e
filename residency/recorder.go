package residency

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// traceVersion is the version of the format of a trace.
const traceVersion = 1

// A trace is lines of JSON: a header, then what the ledger was asked in that order, then the worker's own totals.
//
//	{"moepool_trace":1,"worker":"a","limit":1000,"policy":"lru","layers":[0,1],"parts":8,"bytes":[[10],[10]]}
//	{"op":"seed","profile":[[0,3,0.25],…]}                               layer, part, heat
//	{"op":"insert","layer":0,"part":3}                                   also "prefetch", "remove"
//	{"op":"work","layer":1,"parts":[1,2],"filled":[2],"cut":[[0,4],…]}   layer, then its parts
//	{"op":"end","hits":…,"misses":…,"miss_bytes":…,"ghost_bytes":…,…}
//
// A layer's bytes are the sizes of its first parts; they repeat for the others.

// header is the first line.
type header struct {
	Version int       `json:"moepool_trace"`
	Worker  string    `json:"worker"`
	Limit   int64     `json:"limit"`
	Policy  string    `json:"policy"`
	Layers  []int     `json:"layers"`
	Parts   int       `json:"parts"`
	Bytes   [][]int64 `json:"bytes"` // of each layer
}

// Recorder writes a trace. A nil Recorder records nothing. What can't be written ends the recording: Err says why, and the ledger goes on.
type Recorder struct {
	w    *bufio.Writer
	line []byte
	err  error
}

// NewRecorder begins a trace of a ledger that has not been used yet.
func NewRecorder(w io.Writer, worker string, l *Ledger) (*Recorder, error) {
	h := header{Version: traceVersion, Worker: worker, Limit: l.limit, Policy: l.policy.String(), Layers: l.layers, Parts: l.parts}
	for place := range l.layers {
		h.Bytes = append(h.Bytes, period(l.sizes[place*l.parts:(place+1)*l.parts]))
	}
	line, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	r := &Recorder{w: bufio.NewWriterSize(w, 1<<16)}
	r.line = append(line, '\n')
	r.write()
	if err := r.Flush(); err != nil {
		return nil, err
	}
	return r, nil
}

// period is the shortest beginning of sizes that repeats to all of it.
func period(sizes []int64) []int64 {
next:
	for n := 1; n < len(sizes); n++ {
		if len(sizes)%n != 0 {
			continue
		}
		for i := n; i < len(sizes); i++ {
			if sizes[i] != sizes[i-n] {
				continue next
			}
		}
		return sizes[:n]
	}
	return sizes
}

// Err is what ended the recording before its time, nil if nothing did.
func (r *Recorder) Err() error {
	if r == nil {
		return nil
	}
	return r.err
}

// Flush hands everything to the writer.
func (r *Recorder) Flush() error {
	if r == nil {
		return nil
	}
	if r.err == nil {
		if err := r.w.Flush(); err != nil {
			r.err = fmt.Errorf("recording the residency trace: %w", err)
		}
	}
	return r.err
}

func (r *Recorder) write() {
	if r.err != nil {
		return
	}
	if _, err := r.w.Write(r.line); err != nil {
		r.err = fmt.Errorf("recording the residency trace: %w", err)
	}
}

func (r *Recorder) work(layer int, parts, filled []uint32, cut []LayerParts) {
	if r == nil {
		return
	}
	b := append(r.line[:0], `{"op":"work","layer":`...)
	b = strconv.AppendInt(b, int64(layer), 10)
	b = append(b, `,"parts":[`...)
	b = appendList(b, parts)
	if len(filled) > 0 {
		b = append(b, `],"filled":[`...)
		b = appendList(b, filled)
	}
	b = append(b, ']')
	if len(cut) > 0 {
		b = append(b, `,"cut":[`...)
		for i, c := range cut {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, '[')
			b = strconv.AppendInt(b, int64(c.Layer), 10)
			if len(c.Parts) > 0 {
				b = append(b, ',')
				b = appendList(b, c.Parts)
			}
			b = append(b, ']')
		}
		b = append(b, ']')
	}
	r.line = append(b, '}', '\n')
	r.write()
}

func appendList(b []byte, list []uint32) []byte {
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(v), 10)
	}
	return b
}

func (r *Recorder) change(op string, p Part) {
	if r == nil {
		return
	}
	b := append(append(append(r.line[:0], `{"op":"`...), op...), `","layer":`...)
	b = strconv.AppendInt(b, int64(p.Layer), 10)
	b = append(b, `,"part":`...)
	b = strconv.AppendUint(b, uint64(p.ID), 10)
	r.line = append(b, '}', '\n')
	r.write()
}

func (r *Recorder) seed(profile []Heat) {
	if r == nil {
		return
	}
	b := append(r.line[:0], `{"op":"seed","profile":[`...)
	for i, h := range profile {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendInt(b, int64(h.Layer), 10)
		b = append(b, ',')
		b = strconv.AppendUint(b, uint64(h.ID), 10)
		b = append(b, ',')
		b = strconv.AppendFloat(b, h.Heat, 'g', -1, 64)
		b = append(b, ']')
	}
	r.line = append(b, ']', '}', '\n')
	r.write()
}

// end writes the totals and hands everything to the writer.
func (r *Recorder) end(t Totals) error {
	if r == nil {
		return nil
	}
	line, err := json.Marshal(struct {
		Op string `json:"op"`
		Totals
	}{"end", t})
	if err != nil {
		return err
	}
	r.line = append(line, '\n')
	r.write()
	return r.Flush()
}
