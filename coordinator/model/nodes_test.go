package model

import (
	"errors"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/numa"
)

func drawNodes(t *rapid.T) []team.Node {
	nodes := make([]team.Node, rapid.IntRange(2, 8).Draw(t, "nodes"))
	for i := range nodes {
		nodes[i] = team.Node{ID: 3 * i, Threads: rapid.IntRange(1, 64).Draw(t, "threads")}
	}
	return nodes
}

// Shares follow each other in whole blocks, and are as large as the nodes' threads, but for a block.
func TestShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t)
		outputs := rapid.IntRange(1, 5000).Draw(t, "outputs")
		threads := 0
		for _, n := range nodes {
			threads += n.Threads
		}
		next := 0
		for k, n := range nodes {
			from, to := Share(nodes, k, outputs)
			if from != next || to < from || to != outputs && to%kernels.BlockOutputs != 0 {
				t.Fatalf("node %d has [%d, %d) of %d after %d", k, from, to, outputs, next)
			}
			if fair := outputs * n.Threads / threads; to-from > fair+2*kernels.BlockOutputs || to-from < fair-2*kernels.BlockOutputs {
				t.Fatalf("node %d with %d of %d threads has [%d, %d) of %d", k, n.Threads, threads, from, to, outputs)
			}
			next = to
		}
		if next != outputs {
			t.Fatalf("shares end at %d of %d", next, outputs)
		}
	})
}

// Spans cover a group's memory once in whole pages, and a page in which all outputs are of one node is of that node.
func TestSpans(t *testing.T) {
	t.Parallel()
	page := os.Getpagesize()
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t)
		g := &group{}
		var owners []int // of each 64 bytes
		for range rapid.IntRange(1, 4).Draw(t, "matrices") {
			m := kernels.Matrix{
				Format:  rapid.SampledFrom([]kernels.Format{kernels.F32, kernels.BF16, kernels.Q8}).Draw(t, "format"),
				Outputs: rapid.IntRange(1, 300).Draw(t, "outputs"),
				Columns: 64 * rapid.IntRange(1, 8).Draw(t, "columns"),
			}
			g.matrices = append(g.matrices, matrix{packed: m})
			for k := range nodes {
				from, to := Share(nodes, k, m.Outputs)
				for range (kernels.MatrixBytes(m.Format, to, m.Columns) - kernels.MatrixBytes(m.Format, from, m.Columns)) / 64 {
					owners = append(owners, k)
				}
			}
		}
		total := int(g.bytes())
		if total != 64*len(owners) {
			t.Fatalf("shares have %d bytes of %d", 64*len(owners), total)
		}
		next, last := 0, -1
		for _, s := range g.spans(nodes) {
			if s.from != next || s.to <= s.from || s.to%page != 0 && s.to != total || s.node == last {
				t.Fatalf("span %+v after %d of node %d", s, next, last)
			}
			for at := s.from; at < s.to; at += page {
				end := min(at+page, total)
				found := false
				for _, owner := range owners[at/64 : end/64] {
					found = found || owner == s.node
				}
				if !found {
					t.Fatalf("the page at %d is of node %d, which has no outputs in it", at, s.node)
				}
			}
			next, last = s.to, s.node
		}
		if next != total {
			t.Fatalf("spans end at %d of %d", next, total)
		}
	})
}

func TestPlacementProblem(t *testing.T) {
	t.Parallel()
	denied := errors.New("mbind: denied")
	for _, test := range []struct {
		name string
		m    Model
		want []string // nil: no problem
	}{
		{"one node", Model{}, nil},
		{"local", Model{placement: []Placement{{0, numa.Pages{Local: 95, Remote: 5}}, {4, numa.Pages{Local: 9}}}}, nil},
		{"remote", Model{placement: []Placement{{0, numa.Pages{Local: 95}}, {4, numa.Pages{Local: 94, Remote: 6}}}}, []string{"94 %", "node 4"}},
		{"remote, not bound", Model{placement: []Placement{{4, numa.Pages{Remote: 6}}}, placementErr: denied}, []string{"0 %", "node 4", "mbind: denied"}},
		{"local, not bound", Model{placement: []Placement{{4, numa.Pages{Local: 6}}}, placementErr: denied}, []string{"not bound", "mbind: denied"}},
		{"unknown", Model{placement: []Placement{{4, numa.Pages{Unknown: 6}}}, placementErr: denied}, []string{"not known", "mbind: denied"}},
	} {
		problem := test.m.PlacementProblem()
		if (problem != "") != (test.want != nil) {
			t.Errorf("%s: %q", test.name, problem)
		}
		for _, part := range test.want {
			if !strings.Contains(problem, part) {
				t.Errorf("%s: %q does not say %q", test.name, problem, part)
			}
		}
	}
}
