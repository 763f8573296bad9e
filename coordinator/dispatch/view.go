package dispatch

import (
	"fmt"

	"github.com/moepool/moepool/coordinator/placement"
)

// nobody is the number of no worker.
const nobody int32 = -1

// roster gives workers numbers, which they keep whatever the plan. It only grows.
type roster struct {
	ids     []string
	numbers map[string]int32
}

func (r *roster) number(id string) int32 {
	n, ok := r.numbers[id]
	if !ok {
		if r.numbers == nil {
			r.numbers = map[string]int32{}
		}
		n = int32(len(r.ids))
		r.ids, r.numbers[id] = append(r.ids, id), n
	}
	return n
}

// owners is a plan with workers as numbers.
type owners struct {
	plan   *placement.Plan
	layers map[int]*layerOwners
}

// layerOwners says who owns the expert parts of a layer, each expert·parts+part.
type layerOwners struct {
	first []int32   // the primary
	all   [][]int32 // primary first, then replicas; nil if no part has replicas
}

func newOwners(r *roster, plan *placement.Plan) (*owners, error) {
	o := &owners{plan: plan, layers: make(map[int]*layerOwners, len(plan.Owners))}
	for layer, items := range plan.Owners {
		l := &layerOwners{first: make([]int32, len(items)), all: make([][]int32, len(items))}
		replicas := false
		for item, ids := range items {
			if len(ids) == 0 {
				return nil, fmt.Errorf("placement of layer %d: part %d belongs to nobody", layer, item)
			}
			for _, id := range ids {
				if _, ok := plan.Owned[id]; !ok {
					return nil, fmt.Errorf("placement of layer %d: part %d belongs to %q, which owns nothing", layer, item, id)
				}
				l.all[item] = append(l.all[item], r.number(id))
			}
			l.first[item] = l.all[item][0]
			replicas = replicas || len(ids) > 1
		}
		if !replicas {
			l.all = nil
		}
		o.layers[layer] = l
	}
	return o, nil
}

// of lists the owners of a part, primary first.
func (l *layerOwners) of(part uint32) []int32 {
	if l.all == nil {
		return l.first[part : part+1]
	}
	return l.all[part]
}

// view is what is known of the cluster at one moment. It is not changed.
type view struct {
	owners *owners
	term   uint64
	why    []error // by number: why a worker can't be used; nil if it can
	avoid  []bool  // by number: others are used instead where there are any
	plain  bool    // all workers can be used, and none is to be avoided
}

// first is the first of some owners that can be used, or nobody.
func (v *view) first(owners []int32) int32 {
	for _, owner := range owners {
		if v.why[owner] == nil {
			return owner
		}
	}
	return nobody
}
