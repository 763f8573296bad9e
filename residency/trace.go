package residency

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine is the most bytes that a line of a trace may have.
const maxLine = 64 << 20

// Trace is what a Recorder wrote.
type Trace struct {
	Worker string
	Limit  int64  // under which it was recorded
	Policy string // of the worker, by name
	Layers []int  // in model order
	Parts  int    // of each layer
	// Recorded are the worker's own totals; nil if the recording has no end, because the worker was killed or the disk was full.
	Recorded *Totals

	sizes  [][]int64 // of each layer's first parts, which repeat
	events []event
}

// event is one call of an account.
type event struct {
	op            operation
	layer         int
	parts, filled []uint32 // of work; parts has the one part of the others
	cut           []LayerParts
	profile       []Heat
}

type operation uint8

const (
	work operation = iota
	insert
	prefetch
	remove
	seed
	end
)

var operations = map[string]operation{"work": work, "insert": insert, "prefetch": prefetch, "remove": remove, "seed": seed, "end": end}

// line is the form of all lines but the first.
type line struct {
	Op      string       `json:"op"`
	Layer   int          `json:"layer"`
	Part    uint32       `json:"part"`
	Parts   []uint32     `json:"parts"`
	Filled  []uint32     `json:"filled"`
	Cut     [][]uint32   `json:"cut"`
	Profile [][3]float64 `json:"profile"`
	Totals
}

// ReadTrace reads a trace. A last line that is torn, as when the worker was killed, is left out.
func ReadTrace(r io.Reader) (*Trace, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	first, err := readLine(b)
	if err != nil {
		return nil, fmt.Errorf("not a residency trace: its first line can't be read: %w", err)
	}
	t, check, err := readHeader(first)
	if err != nil {
		return nil, err
	}
	for number := 2; ; number++ {
		text, err := readLine(b)
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err == nil && t.Recorded != nil {
			err = errors.New("it comes after the end")
		}
		if err == nil {
			err = t.add(text, check)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d of the residency trace: %w", number, err)
		}
	}
}

// readLine gives a line without its end; io.EOF, too, for a last line that has none.
func readLine(b *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		piece, err := b.ReadSlice('\n')
		if len(text)+len(piece) > maxLine {
			return nil, fmt.Errorf("it has more than %d bytes", maxLine)
		}
		text = append(text, piece...)
		if err == nil {
			return text[:len(text)-1], nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

func readHeader(text []byte) (*Trace, *Ledger, error) {
	var h header
	if err := decode(text, &h); err != nil || h.Version == 0 {
		return nil, nil, fmt.Errorf("not a residency trace (its first line should begin with {\"moepool_trace\":%d): %w", traceVersion, errors.Join(err))
	}
	if h.Version != traceVersion {
		return nil, nil, fmt.Errorf("the residency trace has version %d, this program reads version %d", h.Version, traceVersion)
	}
	if len(h.Bytes) != len(h.Layers) {
		return nil, nil, fmt.Errorf("the residency trace has %d layers and sizes of %d", len(h.Layers), len(h.Bytes))
	}
	for i, sizes := range h.Bytes {
		if len(sizes) < 1 || h.Parts%len(sizes) != 0 {
			return nil, nil, fmt.Errorf("the residency trace has %d sizes for the %d parts of layer %d", len(sizes), h.Parts, h.Layers[i])
		}
	}
	t := &Trace{Worker: h.Worker, Limit: h.Limit, Policy: h.Policy, Layers: h.Layers, Parts: h.Parts, sizes: h.Bytes}
	check, err := t.ledger(nil, h.Limit)
	if err != nil {
		return nil, nil, fmt.Errorf("the residency trace: %w", err)
	}
	return t, check, nil
}

func decode(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// add reads one line.
func (t *Trace) add(text []byte, known *Ledger) error {
	var l line
	if err := decode(text, &l); err != nil {
		return err
	}
	op, ok := operations[l.Op]
	if !ok {
		return fmt.Errorf("it has the unknown op %q", l.Op)
	}
	e := event{op: op, layer: l.Layer}
	switch op {
	case end:
		t.Recorded = &l.Totals
		return nil
	case seed:
		for _, h := range l.Profile {
			if !(h[0] >= 0 && h[0] <= MaxLayer && h[1] >= 0 && h[1] < MaxParts) {
				return fmt.Errorf("its profile has part %v of layer %v", h[1], h[0])
			}
			e.profile = append(e.profile, Heat{Part: Part{Layer: int(h[0]), ID: uint32(h[1])}, Heat: h[2]})
		}
	case work:
		e.parts, e.filled = l.Parts, l.Filled
		for _, c := range l.Cut {
			if len(c) < 1 || c[0] > MaxLayer {
				return errors.New("its cut has a list without a layer")
			}
			e.cut = append(e.cut, LayerParts{Layer: int(c[0]), Parts: c[1:]})
		}
		for _, list := range append([]LayerParts{{l.Layer, e.parts}, {l.Layer, e.filled}}, e.cut...) {
			if err := known.check(list); err != nil {
				return err
			}
		}
	default:
		e.parts = []uint32{l.Part}
		if err := known.check(LayerParts{l.Layer, e.parts}); err != nil {
			return err
		}
	}
	t.events = append(t.events, e)
	return nil
}

// check says what is wrong with parts that are not the ledger's, or not ascending and distinct.
func (l *Ledger) check(list LayerParts) error {
	if !l.Known(Part{Layer: list.Layer}) {
		return fmt.Errorf("layer %d is none of the trace's layers", list.Layer)
	}
	for i, id := range list.Parts {
		if !l.Known(Part{Layer: list.Layer, ID: id}) {
			return fmt.Errorf("layer %d has no part %d, valid are 0 to %d", list.Layer, id, l.parts-1)
		}
		if i > 0 && id <= list.Parts[i-1] {
			return fmt.Errorf("the parts of layer %d are not in ascending order: %d after %d", list.Layer, id, list.Parts[i-1])
		}
	}
	return nil
}

func (t *Trace) size(place int, id uint32) int64 {
	sizes := t.sizes[place]
	return sizes[int(id)%len(sizes)]
}

// Bytes are those of all parts of all layers.
func (t *Trace) Bytes() int64 {
	var sum int64
	for place := range t.Layers {
		for id := range t.Parts {
			sum += t.size(place, uint32(id))
		}
	}
	return sum
}

// Requested are the bytes of the parts that are wanted at least once, also of those that a budget cut: what a worker needs to miss each only once.
func (t *Trace) Requested() int64 {
	var sum int64
	seen := map[Part]bool{}
	place := t.places()
	add := func(layer int, parts []uint32) {
		for _, id := range parts {
			if p := (Part{layer, id}); !seen[p] {
				seen[p] = true
				sum += t.size(place[layer], id)
			}
		}
	}
	for _, e := range t.events {
		if e.op != work {
			continue
		}
		add(e.layer, e.parts)
		for _, c := range e.cut {
			add(c.Layer, c.Parts)
		}
	}
	return sum
}

func (t *Trace) places() map[int]int {
	place := make(map[int]int, len(t.Layers))
	for i, layer := range t.Layers {
		place[layer] = i
	}
	return place
}

func (t *Trace) ledger(policy Policy, limit int64) (*Ledger, error) {
	place := t.places()
	return New(Options{Limit: limit, Policy: policy, Layers: t.Layers, Parts: t.Parts, Bytes: func(p Part) int64 { return t.size(place[p.Layer], p.ID) }})
}

// Replay asks an account of the given policy and limit all that was recorded. With the policy and limit of the recording its totals are the worker's own.
func (t *Trace) Replay(policy Policy, limit int64) (Totals, error) {
	l, err := t.ledger(policy, limit)
	if err != nil {
		return Totals{}, err
	}
	a := NewAccount(l, nil)
	for _, e := range t.events {
		switch e.op {
		case work:
			a.Work(e.layer, e.parts, e.filled, e.cut)
		case insert:
			a.Insert(Part{e.layer, e.parts[0]})
		case prefetch:
			a.Prefetch(Part{e.layer, e.parts[0]})
		case remove:
			a.Remove(Part{e.layer, e.parts[0]})
		case seed:
			a.Seed(e.profile)
		}
	}
	return a.Totals(), nil
}
