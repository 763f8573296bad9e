package model

import (
	"errors"
	"fmt"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/kernels"
)

// matrix is one tensor to be packed, and where the result goes.
type matrix struct {
	tensor checkpoint.Tensor
	packed kernels.Matrix // without data until it is packed
	into   *kernels.Matrix
}

// vector is one tensor that is kept as float32.
type vector struct {
	tensor checkpoint.Tensor
	into   *[]float32
}

// group is what is loaded at once: a layer, or what lies outside the layers.
type group struct {
	name     string
	matrices []matrix
	vectors  []vector
}

func (g *group) bytes() (total int64) {
	for _, m := range g.matrices {
		total += int64(kernels.MatrixBytes(m.packed.Format, m.packed.Outputs, m.packed.Columns))
	}
	return total
}

// planner looks tensors up and remembers what is wrong with them.
type planner struct {
	cp     *checkpoint.Checkpoint // nil: no weights are here, and tensors are as the configuration has them, in bf16
	format kernels.Format
	group  *group
	errs   []error
}

// plan names all that is loaded into m, group by group, and checks each shape; nothing is read yet. cp may be nil, if only sizes are wanted.
func plan(cp *checkpoint.Checkpoint, m *Model) ([]*group, error) {
	c := m.Config
	p := &planner{cp: cp, format: m.Format}
	outside := &group{name: "LM head"}
	p.group = outside
	p.vector(c.FinalNorm, &m.FinalNorm, c.Hidden)
	head := c.LMHead
	if c.TiedEmbedding {
		head = c.Embedding
	}
	p.matrix(head, &m.Head, c.Vocabulary, c.Hidden)
	groups := []*group{outside}
	for i := range m.Layers {
		p.group = &group{name: fmt.Sprintf("layer %d", i)}
		p.layer(c, i, &m.Layers[i])
		groups = append(groups, p.group)
	}
	if cp == nil {
		return groups, nil
	}
	embedding, err := cp.Tensor(c.Embedding)
	m.Embedding = embedding
	return groups, errors.Join(append(p.errs, err)...)
}

// layer plans one decoder layer.
func (p *planner) layer(c *checkpoint.Config, i int, l *Layer) {
	names, queries, keys := c.Layer(i), c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	l.Window = c.Layers[i].SlidingWindow
	p.vector(names.InputNorm, &l.InputNorm, c.Hidden)
	p.vector(names.PostAttentionNorm, &l.PostAttentionNorm, c.Hidden)
	p.projection(names.Q, names.QBias, &l.Q, queries, c.Hidden)
	p.projection(names.K, names.KBias, &l.K, keys, c.Hidden)
	p.projection(names.V, names.VBias, &l.V, keys, c.Hidden)
	p.projection(names.O, names.OBias, &l.O, c.Hidden, queries)
	p.optionalVector(names.QNorm, &l.QNorm, c.HeadDim)
	p.optionalVector(names.KNorm, &l.KNorm, c.HeadDim)

	if !c.Layers[i].MoE {
		l.Dense = &FeedForward{}
		p.feedForward(names.DenseGate, names.DenseUp, names.DenseDown, l.Dense, c.Hidden, c.DenseIntermediate)
		return
	}
	l.Router = &kernels.Matrix{}
	p.stored(names.Router, l.Router, c.Experts, c.Hidden)
	if c.SharedIntermediate > 0 {
		l.Shared = &FeedForward{}
		p.feedForward(names.SharedGateProj, names.SharedUpProj, names.SharedDownProj, l.Shared, c.Hidden, c.SharedIntermediate)
	}
	if c.SharedIntermediate > 0 && c.SharedGate {
		l.SharedGate = &kernels.Matrix{}
		p.stored(names.SharedGateGate, l.SharedGate, 1, c.Hidden)
	}
}

func (p *planner) feedForward(gate, up, down string, into *FeedForward, hidden, intermediate int) {
	p.matrix(gate, &into.Gate, intermediate, hidden)
	p.matrix(up, &into.Up, intermediate, hidden)
	p.matrix(down, &into.Down, hidden, intermediate)
}

func (p *planner) projection(name, bias string, into *Projection, outputs, columns int) {
	p.matrix(name, &into.Matrix, outputs, columns)
	p.optionalVector(bias, &into.Bias, outputs)
}

// matrix plans a matrix in the model's format. What a checkpoint in FP8 leaves unquantised (the LM head) stays so with fp8.
func (p *planner) matrix(name string, into *kernels.Matrix, outputs, columns int) {
	p.pack(name, into, outputs, columns, func(d checkpoint.DType) kernels.Format {
		if p.cp != nil && p.format == kernels.FP8 && p.cp.Config().BlockFP8 && d != checkpoint.F8E4M3 {
			return storedFormat(d)
		}
		return p.format
	})
}

// stored plans a matrix that keeps its precision.
func (p *planner) stored(name string, into *kernels.Matrix, outputs, columns int) {
	p.pack(name, into, outputs, columns, storedFormat)
}

// storedFormat holds every value of a type exactly: float32 does so for float16.
func storedFormat(d checkpoint.DType) kernels.Format {
	if d == checkpoint.BF16 {
		return kernels.BF16
	}
	return kernels.F32
}

func (p *planner) pack(name string, into *kernels.Matrix, outputs, columns int, format func(checkpoint.DType) kernels.Format) {
	t, ok := p.tensor(name, outputs, columns)
	if ok {
		packed := kernels.Matrix{Format: format(t.DType), Outputs: outputs, Columns: columns}
		p.group.matrices = append(p.group.matrices, matrix{t, packed, into})
	}
}

func (p *planner) optionalVector(name string, into *[]float32, length int) {
	if name != "" {
		p.vector(name, into, length)
	}
}

func (p *planner) vector(name string, into *[]float32, length int) {
	if t, ok := p.tensor(name, length); ok {
		p.group.vectors = append(p.group.vectors, vector{t, into})
	}
}

// tensor finds a tensor with the wanted elements.
func (p *planner) tensor(name string, shape ...int) (checkpoint.Tensor, bool) {
	if p.cp == nil {
		return checkpoint.Tensor{DType: checkpoint.BF16}, true
	}
	t, err := p.cp.Tensor(name)
	if err != nil {
		p.errs = append(p.errs, err)
		return t, false
	}
	want, have := 1, 1
	for _, n := range shape {
		want *= n
	}
	for _, n := range t.Shape {
		have *= n
	}
	if want != have || len(t.Shape) == 0 || t.Shape[0] != shape[0] {
		p.errs = append(p.errs, fmt.Errorf("%s: tensor %s has shape %v, the configuration asks for %v", t.File, name, t.Shape, shape))
		return t, false
	}
	return t, true
}
