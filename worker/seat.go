package worker

import (
	"fmt"
	"sync"

	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/numa/hostinfo"
	"github.com/moepool/moepool/worker/shard"
)

// seat is a worker's place on the host: node, CPUs, threads, and what could not be had of them.
type seat struct {
	node        int // -1 where there is no topology to speak of
	cpus        []int
	threads     int
	memoryBytes int64 // that the node can give; 0 is unknown
	bound       bool
	log         func(format string, args ...any)

	mu    sync.Mutex
	notes []string
}

func (s *seat) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.mu.Lock()
	s.notes = append(s.notes, text)
	s.mu.Unlock()
	s.log("warning: %s", text)
}

func (s *seat) allNotes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.notes...)
}

// takeSeat finds the worker's share of its node. The process was bound by cmd before.
func takeSeat(o *Options) (*seat, error) {
	topology, err := numa.Read()
	if err != nil {
		return nil, fmt.Errorf("topology of this host: %w", err)
	}
	s := &seat{node: -1, log: o.Log}
	var cores, cpus []int
	if o.Node >= 0 {
		node, err := topology.Node(o.Node)
		if err != nil {
			return nil, err
		}
		cores, cpus = node.Cores, node.CPUs
		s.memoryBytes = node.MemoryBytes
		if o.StrictNUMA && node.AvailableBytes > 0 {
			s.memoryBytes = node.AvailableBytes // beyond it the kernel would kill, where it otherwise takes another node's
		}
		if topology.Known {
			s.node = node.ID
		}
	} else {
		for _, node := range topology.ComputeNodes() {
			cores, cpus = append(cores, node.Cores...), append(cpus, node.CPUs...)
		}
	}
	binding, bound := numa.Bound()
	s.bound = bound && binding.Affinity
	switch {
	case bound:
		for _, problem := range binding.Problems {
			s.note("%s", problem)
		}
	case s.node >= 0 && len(topology.Nodes) > 1:
		s.note("the process was not started bound to node %d: memory may come from other nodes", s.node)
	}
	s.threads, s.cpus = divide(cores, cpus, o.Index, o.PerNode, o.Threads)
	if mine := len(share(cores, o.Index, o.PerNode)); s.threads > mine {
		s.note("%d threads on %d physical cores: more threads than cores are slower", s.threads, mine)
	}
	return s, nil
}

// share is the index-th of n equal pieces of a list; where there are fewer elements than pieces, some get the same one.
func share(list []int, index, n int) []int {
	if len(list) == 0 {
		return nil
	}
	if len(list) < n {
		i := index % len(list)
		return list[i : i+1]
	}
	return list[index*len(list)/n : (index+1)*len(list)/n]
}

// divide gives a worker's threads and the CPUs to pin them to: a physical core each, or any CPU of its share if more are asked for.
func divide(cores, cpus []int, index, perNode, threads int) (int, []int) {
	mine := share(cores, index, perNode)
	if threads == 0 {
		threads = max(1, len(mine))
	}
	if threads > len(mine) {
		mine = siblings(mine, share(cpus, index, perNode))
	}
	return threads, mine
}

// siblings gives the cores, then the further CPUs.
func siblings(cores, cpus []int) []int {
	all := append([]int(nil), cores...)
	known := map[int]bool{}
	for _, c := range cores {
		known[c] = true
	}
	for _, c := range cpus {
		if !known[c] {
			all = append(all, c)
		}
	}
	return all
}

// memory is what this worker may take: its part of what is available on the host, at most what the node can give.
func (s *seat) memory(perNode int) shard.Memory {
	m := HostMemory(hostinfo.This())
	if s.memoryBytes > 0 && m.Available > s.memoryBytes {
		m.Available = s.memoryBytes
		m.Why += fmt.Sprintf(", node %d has %s", s.node, bytesize.Text(s.memoryBytes))
	}
	if perNode > 1 && m.Available > 0 {
		m.Available /= int64(perNode)
		m.Why += fmt.Sprintf(", shared by %d workers", perNode)
	}
	return m
}
