package team

import (
	"fmt"
	"sync/atomic"

	"github.com/moepool/moepool/numa"
)

// Node is a NUMA node and the number of a team's threads that are pinned to its CPUs.
type Node struct{ ID, Threads int }

// jobRange is the jobs of one node's threads in a run of ranges. The counter has its cache line for itself.
type jobRange struct {
	next atomic.Int64
	end  int64
	_    [48]byte
}

// NewOnNodes is New with threads that are pinned to the cores of NUMA nodes: thread by thread in turn, as long as a node has cores
// left, so that few threads use all nodes, too. The team then knows which thread runs where (Nodes).
func NewOnNodes(threads int, nodes []numa.Node) (*Team, error) {
	cpus, of := deal(nodes)
	t, err := New(threads, cpus)
	if err != nil || !t.pinned {
		return t, err
	}
	counts := make([]int, len(nodes))
	for thread := range threads {
		counts[of[thread%len(of)]]++
	}
	index := make([]int, len(nodes)) // in t.nodes
	for i, n := range nodes {
		if counts[i] > 0 {
			index[i] = len(t.nodes)
			t.nodes = append(t.nodes, Node{ID: n.ID, Threads: counts[i]})
		}
	}
	if len(t.nodes) == 1 {
		t.nodes = nil
		return t, nil
	}
	t.ranges = make([]jobRange, len(t.nodes))
	for thread := range threads {
		t.home = append(t.home, index[of[thread%len(of)]])
	}
	return t, nil
}

// deal takes a core of each node in turn; of is the index of the node of each.
func deal(nodes []numa.Node) (cpus, of []int) {
	for round, left := 0, true; left; round++ {
		left = false
		for i, n := range nodes {
			if round < len(n.Cores) {
				cpus, of, left = append(cpus, n.Cores[round]), append(of, i), true
			}
		}
	}
	return cpus, of
}

// Nodes are the NUMA nodes that the threads are pinned to, if the team was made by NewOnNodes and they are several, else nil. It
// must not be changed.
func (t *Team) Nodes() []Node { return t.nodes }

// RunRanges is Run for jobs of which each belongs to one of Nodes: those of node k end before ends[k] and begin where the ones of
// the node before it end. A thread takes jobs of its own node in ascending order, and others' only when its own node has none left.
// There are as many ends as Nodes.
func (t *Team) RunRanges(ends []int, job func(i, thread int) error) error {
	t.running.Lock()
	defer t.running.Unlock()
	if len(ends) != len(t.ranges) {
		return fmt.Errorf("jobs of %d nodes for a team on %d", len(ends), len(t.ranges))
	}
	begin := 0
	for k := range t.ranges {
		t.ranges[k].next.Store(int64(begin))
		t.ranges[k].end = int64(ends[k])
		begin = ends[k]
	}
	return t.run(begin, true, job)
}

// take gives the next job for a thread, or -1.
func (t *Team) take(thread int) int64 {
	if t.ranged {
		return t.takeRanged(thread)
	}
	if i := t.next.Add(1) - 1; i < t.n {
		return i
	}
	return -1
}

func (t *Team) takeRanged(thread int) int64 {
	for k := range t.ranges {
		r := &t.ranges[(t.home[thread]+k)%len(t.ranges)]
		if r.next.Load() >= r.end { // no write to others' cache lines when there is nothing to take
			continue
		}
		if i := r.next.Add(1) - 1; i < r.end {
			return i
		}
	}
	return -1
}
