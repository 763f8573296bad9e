// Package comparison measures placements: it plays recorded or drawn routing through a plan, divided among owners by package division, and says how much of a layer its slowest
// worker has to do. It has the placements to compare with. It must not know how workers compute, and nothing of the running program uses it.
package comparison

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
)

// Trace is routing: the experts that rows chose.
type Trace struct {
	Experts, TopK int
	Rows          [][]uint16 // layer → row·TopK+choice → expert; the layers have equally many rows
}

// magic is the first word of a trace file, with its version.
const magic = "moepool-routing-1"

// limits of a file, checked before memory is taken.
const (
	maxExperts = 1 << 8 // an expert is one byte of the file
	maxLayers  = 1 << 10
	maxRows    = 1 << 20
)

// Write stores a trace: a line of text (magic, experts, chosen experts of a row, layers, rows), then a byte for each choice.
func (t *Trace) Write(w io.Writer) error {
	if t.Experts > maxExperts {
		return fmt.Errorf("a trace file holds at most %d experts, not %d", maxExperts, t.Experts)
	}
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, magic, t.Experts, t.TopK, len(t.Rows), t.Len())
	for _, layer := range t.Rows {
		for _, e := range layer {
			b.WriteByte(byte(e))
		}
	}
	return b.Flush()
}

// Read reads a trace file.
func Read(r io.Reader) (*Trace, error) {
	b := bufio.NewReader(r)
	var word string
	var layers, rows int
	t := &Trace{}
	if _, err := fmt.Fscanln(b, &word, &t.Experts, &t.TopK, &layers, &rows); err != nil || word != magic {
		return nil, fmt.Errorf("not a trace of routing (its first word should be %s): %w", magic, errors.Join(err))
	}
	if t.Experts < 1 || t.Experts > maxExperts || t.TopK < 1 || t.TopK > t.Experts || layers < 1 || layers > maxLayers || rows < 1 || rows > maxRows {
		return nil, fmt.Errorf("a trace of %d of %d experts, %d layers and %d rows", t.TopK, t.Experts, layers, rows)
	}
	for range layers {
		bytes := make([]byte, rows*t.TopK)
		if _, err := io.ReadFull(b, bytes); err != nil {
			return nil, fmt.Errorf("the trace is shorter than its %d layers of %d rows: %w", layers, rows, err)
		}
		choices := make([]uint16, len(bytes))
		for i, e := range bytes {
			if int(e) >= t.Experts {
				return nil, fmt.Errorf("a row of the trace chooses expert %d of %d", e, t.Experts)
			}
			choices[i] = uint16(e)
		}
		t.Rows = append(t.Rows, choices)
	}
	return t, nil
}

// Len is the number of rows.
func (t *Trace) Len() int { return len(t.Rows[0]) / t.TopK }

// Row is what a row of a layer chose.
func (t *Trace) Row(layer, row int) []uint16 { return t.Rows[layer][row*t.TopK : (row+1)*t.TopK] }

// Halves divides a trace: plans are made by one half and measured on the other.
func (t *Trace) Halves() (first, second *Trace) {
	a, b := &Trace{t.Experts, t.TopK, nil}, &Trace{t.Experts, t.TopK, nil}
	middle := t.Len() / 2 * t.TopK
	for _, layer := range t.Rows {
		a.Rows, b.Rows = append(a.Rows, layer[:middle]), append(b.Rows, layer[middle:])
	}
	return a, b
}

// Counts are how often the experts of each layer were chosen.
func (t *Trace) Counts() map[int][]float64 {
	counts := map[int][]float64{}
	for l, layer := range t.Rows {
		counts[l] = make([]float64, t.Experts)
		for _, e := range layer {
			counts[l][e]++
		}
	}
	return counts
}

// Pairs are how often pairs of experts of each layer were chosen by one row: layer → expert·experts+expert.
func (t *Trace) Pairs() map[int][]float64 {
	pairs := map[int][]float64{}
	for l := range t.Rows {
		pairs[l] = make([]float64, t.Experts*t.Experts)
		for row := range t.Len() {
			choice := t.Row(l, row)
			for _, a := range choice {
				for _, b := range choice {
					pairs[l][int(a)*t.Experts+int(b)]++
				}
			}
		}
	}
	return pairs
}

// Zipf draws a trace in which the expert of rank r (another one in each layer) is drawn in proportion to r^-exponent, a row's experts one after the
// other without repeats.
func Zipf(layers, rows, experts, topK int, exponent float64, seed uint64) *Trace {
	r := rand.New(rand.NewPCG(seed, 0))
	t := &Trace{Experts: experts, TopK: topK}
	for range layers {
		weights := make([]float64, experts)
		for rank, e := range r.Perm(experts) {
			weights[e] = math.Pow(float64(rank+1), -exponent)
		}
		var layer []uint16
		for range rows {
			row := draw(r, weights, topK)
			slices.Sort(row)
			layer = append(layer, row...)
		}
		t.Rows = append(t.Rows, layer)
	}
	return t
}

func draw(r *rand.Rand, weights []float64, n int) []uint16 {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	var row []uint16
	for len(row) < n {
		at := r.Float64() * total
		e := 0
		for ; e < len(weights)-1 && at >= weights[e]; e++ {
			at -= weights[e]
		}
		if !slices.Contains(row, uint16(e)) {
			row = append(row, uint16(e))
		}
	}
	return row
}

// ReadFile reads a trace from a file.
func ReadFile(name string) (*Trace, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}
