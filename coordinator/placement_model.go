package coordinator

import (
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/kernels"
)

// PlacementModel is what placement needs to know of a checkpoint that is packed in a format and a number of parts.
func PlacementModel(config *checkpoint.Config, format kernels.Format, parts int) placement.Model {
	m := placement.Model{Experts: config.Experts, Parts: parts, TopK: config.TopK}
	for layer, l := range config.Layers {
		if l.MoE {
			m.Layers = append(m.Layers, layer)
		}
	}
	for p := range parts {
		from, to := kernels.PartRange(format, config.ExpertIntermediate, parts, p)
		shape := kernels.ExpertShape{Format: format, Hidden: config.Hidden, Intermediate: to - from}
		m.PartBytes = append(m.PartBytes, int64(shape.Bytes()))
	}
	return m
}
