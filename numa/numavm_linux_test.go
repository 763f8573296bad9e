package numa_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/numa"
)

// These run in a virtual machine with several nodes: numavm -- (see "make numavm").
func needNodes(t *testing.T) *numa.Topology {
	t.Helper()
	topology, err := numa.Read()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("NUMAVM") != "1" {
		t.Skip("needs numavm: CGO_ENABLED=0 go test -exec 'numavm --' ./numa")
	}
	if len(topology.ComputeNodes()) < 2 {
		t.Fatalf("numavm has nodes %+v, want 2 with CPUs", topology.Nodes)
	}
	return topology
}

const filePages = 512

// makeFile writes a file whose pages are afterwards in the cache of the node that the writer runs on, on ext4 or tmpfs.
func makeFile(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-"))
	if err := os.WriteFile(name, make([]byte, filePages*os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(name) })
	return name
}

// dropFile makes the cache forget a file.
func dropFile(t *testing.T, name string) {
	t.Helper()
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

type placement struct {
	Before, After numa.Pages
	Error         string
}

// placeRole maps the file in NUMA_TEST_FILE and says where its pages are: after reading them all, and after Migrate.
func placeRole() error {
	b, bound := numa.Bound()
	if !bound || len(b.Problems) > 0 {
		return fmt.Errorf("not bound: %+v", b)
	}
	file, err := os.Open(os.Getenv("NUMA_TEST_FILE"))
	if err != nil {
		return err
	}
	defer file.Close()
	data, err := unix.Mmap(int(file.Fd()), 0, filePages*os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	var p placement
	if err := unix.Madvise(data, unix.MADV_POPULATE_READ); err != nil {
		return err
	}
	if p.Before, err = numa.Locate(data, b.Node); err != nil {
		return err
	}
	if p.After, err = numa.Migrate(data, b.Node); err != nil {
		p.Error = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(p)
}

func place(t *testing.T, node int, name string) (p placement) {
	t.Helper()
	out, err := startBound(t, node, "place", "NUMA_TEST_FILE="+name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return p
}

func TestVMFilePagesAreLocal(t *testing.T) {
	topology := needNodes(t)
	for _, node := range topology.ComputeNodes() {
		name := makeFile(t, "/ext4")
		dropFile(t, name)
		if p := place(t, node.ID, name); p.Before != (numa.Pages{Local: filePages}) {
			t.Errorf("node %d reads a file from the disk: %+v", node.ID, p.Before)
		}
	}
}

func TestVMCachedPagesAreMoved(t *testing.T) {
	topology := needNodes(t)
	nodes := topology.ComputeNodes()
	for _, dir := range []string{"/ext4", "/tmp"} {
		name := makeFile(t, dir)
		first := place(t, nodes[0].ID, name) // wherever it was written: now it is on node 0
		if first.After != (numa.Pages{Local: filePages}) {
			t.Errorf("%s: on node 0: %+v", dir, first)
		}
		second := place(t, nodes[1].ID, name)
		if second.Before != (numa.Pages{Remote: filePages}) {
			t.Errorf("%s: node 1 finds %+v, want all pages cached on node 0", dir, second.Before)
		}
		if second.After != (numa.Pages{Local: filePages}) || second.Error != "" {
			t.Errorf("%s: node 1 moved: %+v", dir, second)
		}
	}
}

// Pages that another process maps too are moved with CAP_SYS_NICE, which root has.
func TestVMSharedPagesAreMoved(t *testing.T) {
	topology := needNodes(t)
	nodes := topology.ComputeNodes()
	name := makeFile(t, "/ext4")
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := unix.Mmap(int(file.Fd()), 0, filePages*os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(data)
	if _, err := numa.Migrate(data, nodes[0].ID); err != nil {
		t.Fatal(err)
	}
	if p := place(t, nodes[1].ID, name); p.Before.Remote != filePages || p.After.Local != filePages {
		t.Errorf("got %+v", p)
	}
}

func TestVMAnonymousMemory(t *testing.T) {
	topology := needNodes(t)
	for _, node := range topology.Nodes { // the memory-only ones as well
		data := anonymous(t, 64)
		if err := numa.Prefer(data, node.ID, true); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(data); i += os.Getpagesize() {
			data[i] = 1
		}
		for _, at := range topology.Nodes {
			want := numa.Pages{Remote: 64}
			if at.ID == node.ID {
				want = numa.Pages{Local: 64}
			}
			if got, err := numa.Locate(data, at.ID); err != nil || got != want {
				t.Errorf("bound to node %d, asked for node %d: %+v, %v", node.ID, at.ID, got, err)
			}
		}
		if got, err := numa.Migrate(data, topology.Nodes[0].ID); err != nil || got.Local != 64 {
			t.Errorf("moved from node %d: %+v, %v", node.ID, got, err)
		}
	}
}

func TestVMNodesWithoutCPUs(t *testing.T) {
	topology := needNodes(t)
	for _, node := range topology.Nodes {
		_, err := topology.Node(node.ID)
		switch {
		case len(node.CPUs) > 0 && err != nil:
			t.Error(err)
		case len(node.CPUs) == 0 && (!errors.Is(err, numa.ErrNoSuchNode) || !strings.Contains(err.Error(), "memory only")):
			t.Errorf("node %d has no CPUs: got %v", node.ID, err)
		}
	}
	// The same as a worker would say it.
	_, err := startBound(t, 77, "report")
	if err == nil || !strings.Contains(err.Error(), "node 77") || !strings.Contains(err.Error(), "valid: 0-1") {
		t.Errorf("node 77: got %v", err)
	}
}
