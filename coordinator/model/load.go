package model

import (
	"fmt"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
)

// Bytes is the packed size of the dense weights of a checkpoint in a format.
func Bytes(cp *checkpoint.Checkpoint, format kernels.Format) (int64, error) {
	groups, err := plan(cp, empty(cp.Config(), format))
	if err != nil {
		return 0, err
	}
	return sum(groups), nil
}

// Size is what the dense weights of a model take.
type Size struct {
	Bytes   int64 // packed
	Weights int64 // of matrices: a multiply-add each for every row
}

// SizeOf is the size in a format of a model whose weights need not be here; what keeps its precision is taken for bf16.
func SizeOf(c *checkpoint.Config, format kernels.Format) (s Size) {
	groups, _ := plan(nil, empty(c, format)) // without tensors nothing can be wrong with them
	for _, g := range groups {
		s.Bytes += g.bytes()
		for _, m := range g.matrices {
			s.Weights += int64(m.packed.Outputs) * int64(m.packed.Columns)
		}
	}
	return s
}

// Load packs the dense weights of a checkpoint on the threads of a team. Layers are packed one after another, and the pages of
// their tensors are released, so that the peak of memory is the final size and one layer. progress is told the packed bytes; it
// may be nil. If the team's threads are on several NUMA nodes, the memory of each matrix is bound to them by Share.
func Load(cp *checkpoint.Checkpoint, format kernels.Format, t *team.Team, progress func(done, total int64)) (*Model, error) {
	m := empty(cp.Config(), format)
	groups, err := plan(cp, m)
	if err != nil {
		return nil, err
	}
	m.bytes = sum(groups)
	var done int64
	for _, g := range groups {
		if err := m.load(cp, g, t); err != nil {
			m.Close()
			return nil, fmt.Errorf("%s of %s: %w", g.name, cp.Dir(), err)
		}
		done += g.bytes()
		if progress != nil {
			progress(done, m.bytes)
		}
	}
	return m, nil
}

func empty(c *checkpoint.Config, format kernels.Format) *Model {
	return &Model{Config: c, Format: format, Layers: make([]Layer, len(c.Layers))}
}

func sum(groups []*group) (total int64) {
	for _, g := range groups {
		total += g.bytes()
	}
	return total
}

// sliceOutputs is the most outputs of one packing job, a multiple of kernels.BlockOutputs: an LM head is shared by all threads.
const sliceOutputs = 32 * kernels.BlockOutputs

// slice is the outputs [from, to) of a matrix: its packed blocks lie one after another.
type slice struct {
	*matrix
	from, to int
}

// load packs one group into memory of its own. Tensors are read inside the team's jobs, where a file that was truncated
// underneath is an error and not the end of the process.
func (m *Model) load(cp *checkpoint.Checkpoint, g *group, t *team.Team) error {
	data, free, err := arena.Anonymous(int(g.bytes()), "dense weights of "+g.name)
	if err != nil {
		return err
	}
	m.free = append(m.free, free)
	nodes, all := t.Nodes(), data
	var spans []span
	if nodes != nil {
		spans = g.spans(nodes)
		m.bind(all, spans, nodes)
	}
	for i := range g.matrices {
		x := &g.matrices[i]
		size := kernels.MatrixBytes(x.packed.Format, x.packed.Outputs, x.packed.Columns)
		x.packed.Data, data = data[:size:size], data[size:]
	}
	slices, ends := g.slices(nodes)
	job := func(i, _ int) error {
		if i < len(slices) {
			return slices[i].pack()
		}
		v := g.vectors[i-len(slices)]
		*v.into = v.tensor.Float32()
		return nil
	}
	if n := len(slices) + len(g.vectors); nodes == nil {
		err = t.Run(n, job)
	} else {
		ends[len(ends)-1] = n
		err = t.RunRanges(ends, job)
		m.locate(all, spans, nodes)
	}
	for _, x := range g.matrices {
		*x.into = x.packed
		cp.Release(x.tensor)
	}
	for _, v := range g.vectors {
		cp.Release(v.tensor)
	}
	return err
}

// slices cuts a group into packing jobs: node by node, if there are several; ends is where those of each end.
func (g *group) slices(nodes []team.Node) (slices []slice, ends []int) {
	for k := range max(len(nodes), 1) {
		for i := range g.matrices {
			x := &g.matrices[i]
			from, end := 0, x.packed.Outputs
			if nodes != nil {
				from, end = Share(nodes, k, end)
			}
			for ; from < end; from += sliceOutputs {
				slices = append(slices, slice{x, from, min(from+sliceOutputs, end)})
			}
		}
		ends = append(ends, len(slices))
	}
	return slices, ends
}

func (s slice) pack() error {
	f, columns := s.packed.Format, s.packed.Columns
	from, to := kernels.MatrixBytes(f, s.from, columns), kernels.MatrixBytes(f, s.to, columns)
	part := kernels.Matrix{Format: f, Outputs: s.to - s.from, Columns: columns, Data: s.packed.Data[from:to:to]}
	var err error
	if f == kernels.FP8 && s.tensor.BlockFP8() { // as it is stored
		err = kernels.PackStored(part, func(output int, codes []byte, scales []float32) { s.tensor.StoredFP8(s.from+output, 0, codes, scales) })
	} else {
		err = kernels.Pack(part, func(output int, dst []float32) { s.tensor.Row(s.from+output, dst) })
	}
	if err != nil {
		return fmt.Errorf("%s: tensor %s, counted from output row %d: %w", s.tensor.File, s.tensor.Name, s.from, err)
	}
	return nil
}
