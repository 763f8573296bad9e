package cluster

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// plan is written as the workers' ids in order, then for each layer in order and each of its expert parts the numbers of its owners, primary
// first. That is all: what a worker owns follows.
func (c *codec) plan(p **placement.Plan) {
	var names []string
	if !c.reading {
		if *p == nil {
			c.fail("there is no plan")
			return
		}
		names = slices.Sorted(maps.Keys((*p).Owned))
	} else {
		*p = &placement.Plan{}
	}
	plan := *p
	c.uint(&plan.Epoch, maxUint, "epoch")
	if c.err == nil && plan.Epoch == 0 {
		c.fail("the epoch is 0; the first plan has 1")
	}
	n := len(names)
	c.count(&n, maxWorkers, "workers of the plan")
	if c.reading {
		names = make([]string, n)
	}
	previous := ""
	for i := range names {
		c.name(&names[i], "worker of the plan")
		ascending(c, &previous, names[i], i == 0, "workers of the plan")
	}
	if c.reading {
		c.readLayers(plan, names)
		if c.err == nil {
			plan.Owned = owned(plan.Owners, names)
		}
		return
	}
	c.writeLayers(plan, names)
	if c.err == nil && !reflect.DeepEqual(normal(plan.Owned), owned(plan.Owners, names)) {
		c.err = errors.New("what the plan's workers own and the owners of its expert parts differ")
	}
}

func (c *codec) writeLayers(plan *placement.Plan, names []string) {
	number := make(map[string]int, len(names))
	for i, name := range names {
		number[name] = i
	}
	layers := slices.Sorted(maps.Keys(plan.Owners))
	n := len(layers)
	c.count(&n, transport.MaxLayers, "layers of the plan")
	for _, layer := range layers {
		c.int(&layer, 0, math.MaxInt32, "layer")
		n := len(plan.Owners[layer])
		c.count(&n, transport.MaxLayerParts, "expert parts of a layer")
		for _, owners := range plan.Owners[layer] {
			n := len(owners)
			c.int(&n, 1, max(len(names), 1), "owners of an expert part")
			for _, owner := range owners {
				i, known := number[owner]
				if !known {
					c.fail("layer %d: owner %q is no worker of the plan", layer, owner)
				}
				c.int(&i, 0, len(names)-1, "owner")
			}
		}
	}
}

func (c *codec) readLayers(plan *placement.Plan, names []string) {
	n, previous := 0, 0
	c.count(&n, transport.MaxLayers, "layers of the plan")
	plan.Owners = make(map[int][][]string, n)
	for i := 0; i < n && c.err == nil; i++ {
		layer, parts := 0, 0
		c.int(&layer, 0, math.MaxInt32, "layer")
		ascending(c, &previous, layer, i == 0, "layers of the plan")
		c.count(&parts, transport.MaxLayerParts, "expert parts of a layer")
		owners := make([][]string, parts)
		for part := 0; part < parts && c.err == nil; part++ {
			owners[part] = c.readOwners(names)
		}
		plan.Owners[layer] = owners
	}
}

// readOwners reads the owners of one expert part: at least one, none twice.
func (c *codec) readOwners(names []string) []string {
	n := 1
	c.int(&n, 1, max(len(names), 1), "owners of an expert part")
	if c.err == nil && n > len(c.data) {
		c.fail("owners of an expert part: %d announced, and %d bytes left", n, len(c.data))
	}
	if c.err != nil {
		return nil
	}
	if len(names) == 0 {
		c.fail("an expert part needs an owner, and the plan has no workers")
		return nil
	}
	owners := make([]string, n)
	for k := range owners {
		i := 0
		c.int(&i, 0, len(names)-1, "owner")
		if c.err != nil {
			return nil
		}
		if slices.Contains(owners[:k], names[i]) {
			c.fail("worker %s owns an expert part twice", names[i])
			return nil
		}
		owners[k] = names[i]
	}
	return owners
}

// owned turns the owners of expert parts around: worker → layer → parts, ascending.
func owned(owners map[int][][]string, names []string) map[string]map[int][]uint32 {
	all := make(map[string]map[int][]uint32, len(names))
	for _, name := range names {
		all[name] = map[int][]uint32{}
	}
	for layer, parts := range owners {
		for part, of := range parts {
			for _, owner := range of {
				all[owner][layer] = append(all[owner][layer], uint32(part))
			}
		}
	}
	return all
}

// normal leaves out layers of which a worker owns nothing.
func normal(owned map[string]map[int][]uint32) map[string]map[int][]uint32 {
	all := make(map[string]map[int][]uint32, len(owned))
	for name, layers := range owned {
		all[name] = map[int][]uint32{}
		for layer, parts := range layers {
			if len(parts) > 0 {
				all[name][layer] = parts
			}
		}
	}
	return all
}
