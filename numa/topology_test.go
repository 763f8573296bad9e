package numa_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/moepool/moepool/numa"
)

// tree is a sysfs from a map of paths.
type tree map[string]string

func (t tree) fs() fstest.MapFS {
	files := fstest.MapFS{}
	for path, text := range t {
		files["devices/system/"+path] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return files
}

// with adds files; an empty text removes one.
func (t tree) with(more tree) tree {
	sum := tree{}
	for path, text := range t {
		sum[path] = text
	}
	for path, text := range more {
		if sum[path] = text; text == "-" {
			delete(sum, path)
		}
	}
	return sum
}

func meminfo(node int, total, free, active, inactive int) string {
	return fmt.Sprintf(`Node %[1]d MemTotal:       %[2]d kB
Node %[1]d MemFree:        %[3]d kB
Node %[1]d Active(file):   %[4]d kB
Node %[1]d Inactive(file): %[5]d kB
Node %[1]d HugePages_Total:     0`, node, total, free, active, inactive)
}

var oneNode = tree{
	"cpu/online":         "0-3",
	"node/online":        "0",
	"node/possible":      "0",
	"node/node0/cpulist": "0-3",
	"node/node0/meminfo": meminfo(0, 1000, 400, 20, 10),
}

// Two nodes of two cores of two threads each: the siblings are n and n+4.
var twoNodes = tree{
	"cpu/online":                             "0-7",
	"node/online":                            "0-1",
	"node/possible":                          "0-1",
	"node/node0/cpulist":                     "0-1,4-5",
	"node/node1/cpulist":                     "2-3,6-7",
	"node/node0/meminfo":                     meminfo(0, 1000, 400, 0, 0),
	"node/node1/meminfo":                     meminfo(1, 2000, 500, 0, 0),
	"cpu/cpu0/topology/core_cpus_list":       "0,4",
	"cpu/cpu4/topology/core_cpus_list":       "0,4",
	"cpu/cpu1/topology/core_cpus_list":       "1,5",
	"cpu/cpu5/topology/core_cpus_list":       "1,5",
	"cpu/cpu2/topology/thread_siblings_list": "2,6", // older kernels
	"cpu/cpu6/topology/thread_siblings_list": "2,6",
	"cpu/cpu3/topology/thread_siblings_list": "3,7",
	"cpu/cpu7/topology/thread_siblings_list": "3,7",
}

func span(from, to int) (list []int) {
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

func TestReadFrom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		sys     tree
		allowed []int
		want    numa.Topology
	}{
		{"one node", oneNode, span(0, 3), numa.Topology{
			Known: true, Allowed: span(0, 3),
			Nodes: []numa.Node{{ID: 0, CPUs: span(0, 3), Cores: span(0, 3), MemoryBytes: 1000 << 10, FreeBytes: 400 << 10, AvailableBytes: 430 << 10}},
		}},
		{"two nodes with hyperthreads", twoNodes, span(0, 7), numa.Topology{
			Known: true, Allowed: span(0, 7),
			Nodes: []numa.Node{
				{ID: 0, CPUs: []int{0, 1, 4, 5}, Cores: []int{0, 1}, MemoryBytes: 1000 << 10, FreeBytes: 400 << 10, AvailableBytes: 400 << 10},
				{ID: 1, CPUs: []int{2, 3, 6, 7}, Cores: []int{2, 3}, MemoryBytes: 2000 << 10, FreeBytes: 500 << 10, AvailableBytes: 500 << 10},
			},
		}},
		{"a cpuset with the second thread of a core only", twoNodes, []int{5, 2, 6}, numa.Topology{
			Known: true, Allowed: []int{2, 5, 6},
			Nodes: []numa.Node{
				{ID: 0, CPUs: []int{5}, Cores: []int{5}, MemoryBytes: 1000 << 10, FreeBytes: 400 << 10, AvailableBytes: 400 << 10},
				{ID: 1, CPUs: []int{2, 6}, Cores: []int{2}, MemoryBytes: 2000 << 10, FreeBytes: 500 << 10, AvailableBytes: 500 << 10},
			},
		}},
		{"a cpuset of one node", twoNodes, []int{2, 3}, numa.Topology{
			Known: true, Allowed: []int{2, 3},
			Nodes: []numa.Node{
				{ID: 0, CPUs: []int{}, Cores: []int{}, MemoryBytes: 1000 << 10, FreeBytes: 400 << 10, AvailableBytes: 400 << 10},
				{ID: 1, CPUs: []int{2, 3}, Cores: []int{2, 3}, MemoryBytes: 2000 << 10, FreeBytes: 500 << 10, AvailableBytes: 500 << 10},
			},
		}},
		{"offline CPUs, ids with gaps, a memory-only node, no meminfo", tree{
			"cpu/online":         "0-2,5",
			"node/online":        "0,2,8",
			"node/possible":      "0-8",
			"node/node0/cpulist": "0-3", // 3 is going offline
			"node/node2/cpulist": "5",
			"node/node8/cpulist": "",
			"node/node8/meminfo": meminfo(8, 64, 64, 0, 0),
		}, span(0, 7), numa.Topology{
			Known: true, Allowed: span(0, 7),
			Nodes: []numa.Node{
				{ID: 0, CPUs: []int{0, 1, 2}, Cores: []int{0, 1, 2}},
				{ID: 2, CPUs: []int{5}, Cores: []int{5}},
				{ID: 8, CPUs: []int{}, Cores: []int{}, MemoryBytes: 64 << 10, FreeBytes: 64 << 10, AvailableBytes: 64 << 10},
			},
		}},
		{"no node folder", tree{"cpu/online": "0-3", "cpu/cpu0/topology/core_cpus_list": "0-1", "cpu/cpu2/topology/core_cpus_list": "2-3"},
			[]int{0, 1, 2}, numa.Topology{
				Allowed: []int{0, 1, 2},
				Nodes:   []numa.Node{{ID: 0, CPUs: []int{0, 1, 2}, Cores: []int{0, 2}}},
			}},
		{"nothing at all", tree{}, []int{0, 1}, numa.Topology{
			Allowed: []int{0, 1},
			Nodes:   []numa.Node{{ID: 0, CPUs: []int{0, 1}, Cores: []int{0, 1}}},
		}},
		{"nodes without any of our CPUs", tree{"cpu/online": "0-1", "node/online": "0", "node/node0/cpulist": ""}, []int{0, 1}, numa.Topology{
			Allowed: []int{0, 1},
			Nodes:   []numa.Node{{ID: 0, CPUs: []int{0, 1}, Cores: []int{0, 1}}},
		}},
		{"unknown affinity", oneNode, nil, numa.Topology{
			Known: true, Allowed: span(0, 3),
			Nodes: []numa.Node{{ID: 0, CPUs: span(0, 3), Cores: span(0, 3), MemoryBytes: 1000 << 10, FreeBytes: 400 << 10, AvailableBytes: 430 << 10}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := numa.ReadFrom(c.sys.fs(), c.allowed)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, got, cmpopts.IgnoreUnexported(numa.Topology{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadFromNonsense(t *testing.T) {
	t.Parallel()
	for file, text := range map[string]string{
		"cpu/online":                       "zero",
		"node/online":                      "0-",
		"node/possible":                    "x",
		"node/node0/cpulist":               "0-99999999999",
		"node/node0/meminfo":               "Node 0 MemTotal: many kB",
		"cpu/cpu0/topology/core_cpus_list": "?",
	} {
		_, err := numa.ReadFrom(oneNode.with(tree{file: text}).fs(), span(0, 3))
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v, want an error that names the file", file, err)
		}
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
	sys := twoNodes.with(tree{"node/online": "0-1,3-4", "node/possible": "0-4,7", "node/node3/cpulist": "", "node/node4/cpulist": "9"})
	topology, err := numa.ReadFrom(sys.fs(), span(0, 7))
	if err != nil {
		t.Fatal(err)
	}
	n, err := topology.Node(1)
	if err != nil || n.ID != 1 || len(n.CPUs) != 4 {
		t.Fatalf("node 1: %v, %v", n, err)
	}
	for id, reason := range map[int]string{
		2:  "offline",
		3:  "memory only",
		4:  "outside the cpuset",
		7:  "offline",
		9:  "does not exist",
		-1: "does not exist",
	} {
		_, err := topology.Node(id)
		if !errors.Is(err, numa.ErrNoSuchNode) || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), "(valid: 0-1)") {
			t.Errorf("node %d: got %v, want %q and the valid list", id, err, reason)
		}
	}
	var ids []int
	for _, n := range topology.ComputeNodes() {
		ids = append(ids, n.ID)
	}
	if diff := cmp.Diff([]int{0, 1}, ids); diff != "" {
		t.Error(diff)
	}
	if topology.Cores() != 4 {
		t.Errorf("%d cores, want 4", topology.Cores())
	}
}

func TestReadThisHost(t *testing.T) {
	t.Parallel()
	topology, err := numa.Read()
	if err != nil {
		t.Fatal(err)
	}
	cpus := 0
	for _, n := range topology.Nodes {
		cpus += len(n.CPUs)
	}
	if cpus != runtime.NumCPU() {
		t.Errorf("the nodes have %d CPUs, the runtime may use %d", cpus, runtime.NumCPU())
	}
	for _, n := range topology.Nodes {
		if runtime.GOOS == "linux" && (n.MemoryBytes <= 0 || n.FreeBytes > n.MemoryBytes || n.AvailableBytes < n.FreeBytes) {
			t.Errorf("memory of node %d: %+v", n.ID, n)
		}
	}
}
