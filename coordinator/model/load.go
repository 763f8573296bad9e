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
	m := empty(cp, format)
	groups, err := plan(cp, m)
	if err != nil {
		return 0, err
	}
	return sum(groups), nil
}

// Load packs the dense weights of a checkpoint on the threads of a team. Layers are packed one after another, and the pages of
// their tensors are released, so that the peak of memory is the final size and one layer. progress is told the packed bytes; it
// may be nil.
func Load(cp *checkpoint.Checkpoint, format kernels.Format, t *team.Team, progress func(done, total int64)) (*Model, error) {
	m := empty(cp, format)
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

func empty(cp *checkpoint.Checkpoint, format kernels.Format) *Model {
	c := cp.Config()
	return &Model{Config: c, Format: format, Layers: make([]Layer, len(c.Layers))}
}

func sum(groups []*group) (total int64) {
	for _, g := range groups {
		total += g.bytes()
	}
	return total
}

// load packs one group into memory of its own. Tensors are read inside the team's jobs, where a file that was truncated
// underneath is an error and not the end of the process.
func (m *Model) load(cp *checkpoint.Checkpoint, g *group, t *team.Team) error {
	data, free, err := arena.Anonymous(int(g.bytes()), "dense weights of "+g.name)
	if err != nil {
		return err
	}
	m.free = append(m.free, free)
	for i := range g.matrices {
		p := &g.matrices[i].packed
		size := kernels.MatrixBytes(p.Format, p.Outputs, p.Columns)
		p.Data, data = data[:size:size], data[size:]
	}
	err = t.Run(len(g.matrices)+len(g.vectors), func(i, _ int) error {
		if i < len(g.matrices) {
			return g.matrices[i].pack(cp)
		}
		v := g.vectors[i-len(g.matrices)]
		*v.into = v.tensor.Float32()
		cp.Release(v.tensor)
		return nil
	})
	return err
}

func (m *matrix) pack(cp *checkpoint.Checkpoint) error {
	err := kernels.Pack(m.packed, func(output int, dst []float32) { m.tensor.Row(output, dst) })
	if err != nil {
		return fmt.Errorf("%s: tensor %s: %w", m.tensor.File, m.tensor.Name, err)
	}
	cp.Release(m.tensor)
	*m.into = m.packed
	return nil
}
