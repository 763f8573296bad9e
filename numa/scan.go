package numa

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// ReadFrom reads a sysfs tree ("devices/system/node/...", "devices/system/cpu/...") with a given affinity mask. Files that are
// missing are worked around; a file with nonsense in it is an error that names the file. An empty mask allows all CPUs.
func ReadFrom(sys fs.FS, allowed []int) (*Topology, error) {
	s := &scan{sys: sys, topology: &Topology{Allowed: slices.Sorted(slices.Values(allowed)), missing: map[int]string{}}}
	// Each reader uses what those before it have found.
	for _, read := range []func() error{s.onlineCPUs, s.nodes, s.nodeCPUs, s.oneNode, s.nodeMemory, s.cores} {
		if err := read(); err != nil {
			return nil, fmt.Errorf("reading the NUMA topology: %w", err)
		}
	}
	return s.topology, nil
}

const (
	cpuDir  = "devices/system/cpu/"
	nodeDir = "devices/system/node/"
)

type scan struct {
	sys      fs.FS
	topology *Topology
	usable   []int // online and allowed
}

// list reads a file in list syntax; found is false if there is none.
func (s *scan) list(name string) (list []int, found bool, err error) {
	text, err := fs.ReadFile(s.sys, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	list, err = ParseList(string(text))
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	return list, true, nil
}

// onlineCPUs finds the CPUs that this process may use.
func (s *scan) onlineCPUs() error {
	online, found, err := s.list(cpuDir + "online")
	switch {
	case err != nil:
		return err
	case !found:
		s.usable = s.topology.Allowed
	case len(s.topology.Allowed) == 0:
		s.topology.Allowed, s.usable = online, online
	default:
		s.usable = intersect(online, s.topology.Allowed)
	}
	return nil
}

// nodes finds the nodes that are online, and notes those that could be.
func (s *scan) nodes() error {
	online, found, err := s.list(nodeDir + "online")
	if err != nil || !found {
		return err
	}
	for _, id := range online {
		s.topology.Nodes = append(s.topology.Nodes, Node{ID: id, CPUs: []int{}, Cores: []int{}})
	}
	possible, _, err := s.list(nodeDir + "possible")
	if err != nil {
		return err
	}
	for _, id := range possible {
		if !slices.Contains(online, id) {
			s.topology.missing[id] = "it is offline"
		}
	}
	return nil
}

// nodeCPUs gives each node its usable CPUs.
func (s *scan) nodeCPUs() error {
	for i := range s.topology.Nodes {
		n := &s.topology.Nodes[i]
		cpus, _, err := s.list(fmt.Sprintf("%snode%d/cpulist", nodeDir, n.ID))
		if err != nil {
			return err
		}
		n.CPUs = intersect(cpus, s.usable)
		switch {
		case len(cpus) == 0:
			s.topology.missing[n.ID] = "it has memory only, no CPUs"
		case len(n.CPUs) == 0:
			s.topology.missing[n.ID] = fmt.Sprintf("its CPUs %s are outside the cpuset or affinity of this process (%s)",
				FormatList(cpus), FormatList(s.topology.Allowed))
		}
		if len(n.CPUs) > 0 {
			s.topology.Known = true
		}
	}
	return nil
}

// oneNode stands in where sysfs says nothing of nodes, or assigns none of the usable CPUs to one (as some containers do).
func (s *scan) oneNode() error {
	if s.topology.Known {
		return nil
	}
	s.topology.Nodes = []Node{{CPUs: slices.Clone(s.usable), Cores: []int{}}}
	if s.usable == nil {
		s.topology.Nodes[0].CPUs = []int{}
	}
	s.topology.missing = map[int]string{}
	return nil
}

// nodeMemory reads the size and use of each node's memory.
func (s *scan) nodeMemory() error {
	for i := range s.topology.Nodes {
		n := &s.topology.Nodes[i]
		name := fmt.Sprintf("%snode%d/meminfo", nodeDir, n.ID)
		text, err := fs.ReadFile(s.sys, name)
		if err != nil {
			continue // unknown: 0
		}
		fields, err := parseNodeMemory(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		n.MemoryBytes, n.FreeBytes = fields["MemTotal"], fields["MemFree"]
		n.AvailableBytes = fields["MemFree"] + fields["Active(file)"] + fields["Inactive(file)"] + fields["SReclaimable"]
	}
	return nil
}

// parseNodeMemory reads lines such as "Node 0 MemTotal: 1024 kB" as bytes by name.
func parseNodeMemory(text []byte) (map[string]int64, error) {
	fields := map[string]int64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 5 || words[4] != "kB" {
			continue // counts of huge pages have no unit
		}
		kilobytes, err := strconv.ParseInt(words[3], 10, 64)
		if err != nil || kilobytes < 0 || kilobytes > 1<<50 {
			return nil, fmt.Errorf("%q is not a size", lines.Text())
		}
		fields[strings.TrimSuffix(words[2], ":")] = kilobytes << 10
	}
	return fields, lines.Err()
}

// cores finds the first usable CPU of each physical core.
func (s *scan) cores() error {
	for i := range s.topology.Nodes {
		n := &s.topology.Nodes[i]
		seen := map[int]bool{} // CPUs whose core has been counted
		for _, cpu := range n.CPUs {
			if seen[cpu] {
				continue
			}
			n.Cores = append(n.Cores, cpu)
			siblings, err := s.siblings(cpu)
			if err != nil {
				return err
			}
			for _, other := range siblings {
				seen[other] = true
			}
		}
	}
	return nil
}

// siblings gives the CPUs of one core; none if unknown.
func (s *scan) siblings(cpu int) ([]int, error) {
	for _, file := range []string{"core_cpus_list", "thread_siblings_list"} { // the second is the name before Linux 5.3
		list, found, err := s.list(fmt.Sprintf("%scpu%d/topology/%s", cpuDir, cpu, file))
		if err != nil || found {
			return list, err
		}
	}
	return nil, nil
}
