package numa

import (
	"errors"
	"fmt"
	"slices"
)

// Node is one NUMA node that is online.
type Node struct {
	ID             int   `json:"id"`
	CPUs           []int `json:"cpus"`            // online and allowed by this process's affinity mask, ascending; empty for a memory-only node
	Cores          []int `json:"cores"`           // the first allowed CPU of each physical core, ascending
	MemoryBytes    int64 `json:"memory_bytes"`    // 0 if unknown
	FreeBytes      int64 `json:"free_bytes"`      // used for nothing at all
	AvailableBytes int64 `json:"available_bytes"` // free, or page cache that the kernel gives up when memory is asked for
}

// Topology is what this process may use.
type Topology struct {
	Nodes   []Node `json:"nodes"`   // ascending by id; at least one
	Allowed []int  `json:"allowed"` // the process's affinity mask
	Known   bool   `json:"known"`   // false where sysfs had nothing: one node with all CPUs is assumed

	missing map[int]string // why a node that exists can't be chosen, by id
}

// ErrNoSuchNode is the error of Topology.Node for a node that can't be computed on.
var ErrNoSuchNode = errors.New("no such NUMA node")

// Node finds a node that has CPUs; the error of an unknown one (ErrNoSuchNode) lists the valid ids.
func (t *Topology) Node(id int) (*Node, error) {
	valid := []int{}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if len(n.CPUs) == 0 {
			continue
		}
		if n.ID == id {
			return n, nil
		}
		valid = append(valid, n.ID)
	}
	reason := t.missing[id]
	if reason == "" {
		reason = "it does not exist on this host"
	}
	return nil, fmt.Errorf("%w: node %d can't be used: %s (valid: %s)", ErrNoSuchNode, id, reason, FormatList(valid))
}

// ComputeNodes are the nodes with at least one allowed CPU.
func (t *Topology) ComputeNodes() []Node {
	var nodes []Node
	for _, n := range t.Nodes {
		if len(n.CPUs) > 0 {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Cores counts the physical cores that this process may use, on all nodes.
func (t *Topology) Cores() int {
	total := 0
	for _, n := range t.Nodes {
		total += len(n.Cores)
	}
	return total
}

// intersect gives the numbers in both ascending lists.
func intersect(a, b []int) []int {
	both := []int{}
	for _, n := range a {
		if _, found := slices.BinarySearch(b, n); found {
			both = append(both, n)
		}
	}
	return both
}
