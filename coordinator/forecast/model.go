package forecast

import (
	"fmt"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/kernels"
)

// Model is what a forecast needs to know of a model; all sizes in bytes.
type Model struct {
	placement.Model
	TopK      int
	Hidden    int
	Quantized bool // rows travel as codes and scales

	DenseBytes    int64 // all dense weights that a token reads, packed: the LM head, too
	PositionBytes int64 // of the KV cache, all layers
	DenseWeights  int64 // a multiply-add each for every row
	PartWeights   []int64
}

// NewModel sizes a model from its configuration alone. experts is its placement.Model in an expert format and a number of parts, dense the
// size of its dense weights, and kvElementBytes that of a value of the KV cache: 4 is f32, 2 is bf16, 1 is int8.
func NewModel(c *checkpoint.Config, format kernels.Format, experts placement.Model, dense model.Size, kvElementBytes int) (*Model, error) {
	if len(experts.Layers) == 0 {
		return nil, fmt.Errorf("a model of family %s without experts: there is nothing to place", c.Family)
	}
	m := &Model{Model: experts, TopK: c.TopK, Hidden: c.Hidden, Quantized: format.Quantized(), DenseBytes: dense.Bytes, DenseWeights: dense.Weights,
		PositionBytes: 2 * int64(len(c.Layers)) * int64(c.KVHeads*c.HeadDim) * int64(kvElementBytes)}
	for p := range experts.Parts {
		from, to := kernels.PartRange(format, c.ExpertIntermediate, experts.Parts, p)
		m.PartWeights = append(m.PartWeights, 3*int64(to-from)*int64(c.Hidden))
	}
	return m, nil
}

// ExpertBytes is the packed size of all experts.
func (m *Model) ExpertBytes() int64 {
	var one int64
	for _, b := range m.PartBytes {
		one += b
	}
	return one * int64(m.Experts) * int64(len(m.Layers))
}

// rowBytes is what one row takes on the wire to a worker, without the ids of its experts.
func (m *Model) rowBytes() int64 {
	if m.Quantized {
		return int64(kernels.PaddedColumns(m.Hidden) + 4*kernels.Groups(m.Hidden))
	}
	return 4 * int64(m.Hidden)
}

// sumBytes is what one row of sums takes on the wire back.
func (m *Model) sumBytes() int64 { return 4 * int64(m.Hidden) }
