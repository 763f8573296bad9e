package engine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
)

// Each node's jobs are its shares of all products, once, in ascending order, and begin at whole blocks.
func TestCutByNode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]team.Node, rapid.IntRange(2, 8).Draw(t, "nodes"))
		for i := range nodes {
			nodes[i] = team.Node{ID: i, Threads: rapid.IntRange(1, 64).Draw(t, "threads")}
		}
		products := make([]product, rapid.IntRange(1, 3).Draw(t, "products"))
		for i := range products {
			products[i].matrix.Outputs = rapid.IntRange(1, 5000).Draw(t, "outputs")
		}
		jobs, ends := cutByNode(nil, nil, products, nodes)
		if len(ends) != len(nodes) || !slices.IsSorted(ends) || ends[len(ends)-1] != len(jobs) {
			t.Fatalf("%d jobs, of nodes up to %v", len(jobs), ends)
		}
		begin := 0
		for k := range nodes {
			mine := jobs[begin:ends[k]]
			begin = ends[k]
			for i, p := range products {
				from, to := model.Share(nodes, k, p.matrix.Outputs)
				for len(mine) > 0 && mine[0].product == i {
					if mine[0].from != from || mine[0].to <= from || mine[0].to > to || from%kernels.BlockOutputs != 0 {
						t.Fatalf("node %d: job %v at %d of a share up to %d", k, mine[0], from, to)
					}
					from, mine = mine[0].to, mine[1:]
				}
				if from != to {
					t.Fatalf("node %d: jobs of product %d end at %d, its share at %d", k, i, from, to)
				}
			}
			if len(mine) > 0 {
				t.Fatalf("node %d: job %v comes too late", k, mine[0])
			}
		}
	})
}
