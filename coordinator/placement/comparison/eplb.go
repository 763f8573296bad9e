package comparison

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/moepool/moepool/coordinator/placement"
)

// EPLB is DeepSeek's Expert Parallelism Load Balancer, written anew from its description (github.com/deepseek-ai/EPLB, README; the test has its
// example): experts are packed into replicas slots a layer, equally many on each GPU. A group is of experts that are routed together. If the nodes divide the groups, groups are packed to
// nodes, experts replicated within each node, and replicas packed to its GPUs; else there is one node and one group. It gives, for each GPU of a layer, the experts of
// its slots.
func EPLB(weight []float64, replicas, groups, nodes, gpus int) ([][]int, error) {
	experts := len(weight)
	if groups%nodes != 0 {
		groups, nodes = 1, 1
	}
	if replicas < experts || replicas%gpus != 0 || gpus%nodes != 0 || experts%groups != 0 {
		return nil, fmt.Errorf("%d replicas of %d experts in %d groups don't divide over %d GPUs on %d nodes", replicas, experts, groups, gpus, nodes)
	}
	size := experts / groups
	groupWeight := make([]float64, groups)
	for e, w := range weight {
		groupWeight[e/size] += w
	}
	var slots [][]int
	for _, node := range pack(groupWeight, nodes) {
		var members []int
		for _, g := range node {
			for e := g * size; e < (g+1)*size; e++ {
				members = append(members, e)
			}
		}
		// One more replica at a time for what has the highest load for each one.
		copies, load := append([]int(nil), members...), map[int]int{}
		for _, e := range members {
			load[e] = 1
		}
		for len(copies) < replicas/nodes {
			hottest := slices.MaxFunc(members, func(a, b int) int {
				return cmp.Or(cmp.Compare(weight[a]/float64(load[a]), weight[b]/float64(load[b])), cmp.Compare(b, a))
			})
			load[hottest]++
			copies = append(copies, hottest)
		}
		each := make([]float64, len(copies))
		for i, e := range copies {
			each[i] = weight[e] / float64(load[e])
		}
		for _, gpu := range pack(each, gpus/nodes) {
			var slot []int
			for _, i := range gpu {
				slot = append(slot, copies[i])
			}
			slots = append(slots, slot)
		}
	}
	return slots, nil
}

// pack puts items into packs with equally many each: the heaviest first, to the lightest pack that isn't full.
func pack(weight []float64, packs int) [][]int {
	order := make([]int, len(weight))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weight[b], weight[a]) })
	result, sums := make([][]int, packs), make([]float64, packs)
	for _, item := range order {
		lightest := -1
		for p := range result {
			if len(result[p]) < len(weight)/packs && (lightest < 0 || sums[p] < sums[lightest]) {
				lightest = p
			}
		}
		result[lightest], sums[lightest] = append(result[lightest], item), sums[lightest]+weight[item]
	}
	return result
}

// planEPLB makes a plan of EPLB's slots. Two replicas of an expert on one GPU are one owner.
func planEPLB(t Task) (*placement.Plan, error) {
	m, workers := t.Model, t.Workers
	owners := map[int][][]int{}
	for _, layer := range m.Layers {
		slots, err := EPLB(t.Counts[layer], m.Experts+t.Redundant, 1, 1, len(workers))
		if err != nil {
			return nil, err
		}
		owners[layer] = make([][]int, m.Experts)
		for w, slot := range slots {
			for _, e := range slot {
				if !slices.Contains(owners[layer][e], w) {
					owners[layer][e] = append(owners[layer][e], w)
				}
			}
		}
	}
	return planOf(m, workers, owners), nil
}
