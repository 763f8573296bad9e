package model

import (
	"fmt"
	"os"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/numa"
)

// Share is the outputs [from, to) of a matrix that belong to node k of a team's: whole blocks, in proportion to the nodes' threads.
// It may be empty. Weights are placed by it at load, and products are cut by it.
func Share(nodes []team.Node, k, outputs int) (from, to int) {
	before, all := 0, 0
	for i, n := range nodes {
		if i < k {
			before += n.Threads
		}
		all += n.Threads
	}
	blocks := (outputs + kernels.BlockOutputs - 1) / kernels.BlockOutputs
	from = min(blocks*before/all*kernels.BlockOutputs, outputs)
	to = min(blocks*(before+nodes[k].Threads)/all*kernels.BlockOutputs, outputs)
	return from, to
}

// Placement is where the pages of the packed matrices are that the threads of one NUMA node read.
type Placement struct {
	Node  int        `json:"node"`
	Pages numa.Pages `json:"pages"`
}

// leastLocal is the share of a node's pages below which a reader is told.
const leastLocal = 0.95

// Placement is nil if the team that loaded the model is on one node.
func (m *Model) Placement() []Placement { return m.placement }

// PlacementProblem says what keeps the weights from the nodes that read them; "" is nothing.
func (m *Model) PlacementProblem() string {
	why := ""
	if m.placementErr != nil {
		why = fmt.Sprintf(" (%v)", m.placementErr)
	}
	for _, p := range m.placement {
		if p.Pages.Unknown > 0 {
			return "dense weights: where their pages are is not known" + why
		}
		if share := p.Pages.LocalShare(); share < leastLocal {
			return fmt.Sprintf("dense weights: %.0f %% of the pages that NUMA node %d reads are on it%s", 100*share, p.Node, why)
		}
	}
	if why != "" {
		return "dense weights: not bound to NUMA nodes; they lie where threads of each node packed them" + why
	}
	return ""
}

// span is whole pages of a group's memory, as offsets, that belong to one node.
type span struct{ node, from, to int }

// spans cuts a group's memory by node. A page on a boundary belongs to the node whose outputs begin or lie in it last.
func (g *group) spans(nodes []team.Node) []span {
	var spans []span
	from, offset, page := 0, 0, os.Getpagesize()
	add := func(node, to int) {
		if last := len(spans) - 1; last >= 0 && spans[last].node == node {
			spans[last].to = to
		} else if to > from {
			spans = append(spans, span{node, from, to})
		}
		from = max(from, to)
	}
	for _, x := range g.matrices {
		for k := range nodes {
			_, to := Share(nodes, k, x.packed.Outputs)
			add(k, (offset+kernels.MatrixBytes(x.packed.Format, to, x.packed.Columns))/page*page)
		}
		offset += kernels.MatrixBytes(x.packed.Format, x.packed.Outputs, x.packed.Columns)
	}
	if from < offset {
		add(len(nodes)-1, offset)
	}
	return spans
}

// bind asks for memory of each node for its spans, before any of it is touched. Where that is not permitted, pages still come to the
// node whose thread packs into them first.
func (m *Model) bind(data []byte, spans []span, nodes []team.Node) {
	for _, s := range spans {
		if err := numa.Prefer(data[s.from:s.to], nodes[s.node].ID, false); err != nil && m.placementErr == nil {
			m.placementErr = err
		}
	}
}

// locate counts where the pages of spans are.
func (m *Model) locate(data []byte, spans []span, nodes []team.Node) {
	if m.placement == nil {
		for _, n := range nodes {
			m.placement = append(m.placement, Placement{Node: n.ID})
		}
	}
	for _, s := range spans {
		pages, err := numa.Locate(data[s.from:s.to], nodes[s.node].ID)
		if err != nil && m.placementErr == nil {
			m.placementErr = err
		}
		m.placement[s.node].Pages.Add(pages)
	}
}
