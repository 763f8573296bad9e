// Package model owns the dense weights of a model, packed outside the Go heap: attention, dense and shared feed-forward networks,
// routers, norms and the LM head. What a family has is decided by checkpoint.Config alone. It must not know how a step is
// computed, nor of routed experts.
package model

import (
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/kernels"
)

// Model is the packed dense part of a checkpoint. It is immutable; embedding rows are read from the checkpoint's mapping, which
// must stay open.
type Model struct {
	Config    *checkpoint.Config
	Format    kernels.Format // of all matrices but routers and shared gates
	Embedding checkpoint.Tensor
	Layers    []Layer
	FinalNorm []float32
	Head      kernels.Matrix // [vocabulary, hidden]; packed from the embedding if that is tied

	bytes int64
	free  []func()

	placement    []Placement
	placementErr error // why memory can't be bound to nodes, or not be looked up
}

// Layer is one decoder layer. A field that the layer lacks is nil.
type Layer struct {
	Window int // number of positions that a query sees, its own included; 0 is all

	InputNorm, PostAttentionNorm []float32
	Q, K, V, O                   Projection
	QNorm, KNorm                 []float32 // [head dim], applied to each head before rotation

	Router     *kernels.Matrix // [experts, hidden], as stored
	Dense      *FeedForward    // a layer without experts
	Shared     *FeedForward    // the shared expert
	SharedGate *kernels.Matrix // [1, hidden], as stored: sigmoid of it scales the shared expert
}

// Projection is a matrix with an optional bias.
type Projection struct {
	kernels.Matrix
	Bias []float32 // [outputs] or nil
}

// FeedForward is down(silu(gate·x) · up·x).
type FeedForward struct {
	Gate, Up, Down kernels.Matrix
}

// Bytes is the packed size of all matrices.
func (m *Model) Bytes() int64 { return m.bytes }

// Close gives the memory back.
func (m *Model) Close() {
	for _, free := range m.free {
		free()
	}
	m.free, m.Layers, m.Head = nil, nil, kernels.Matrix{}
}
