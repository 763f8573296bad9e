//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/internal/reservedport"
	"github.com/moepool/moepool/numa"
)

// inNUMAVM skips tests that need a kernel with two NUMA nodes; .ci/numavm runs them in one.
func inNUMAVM(t *testing.T) *numa.Topology {
	t.Helper()
	topology, err := numa.Read()
	if err != nil {
		t.Fatal(err)
	}
	if len(topology.ComputeNodes()) < 2 {
		if os.Getenv("NUMAVM") != "" {
			t.Fatalf("the VM has %d nodes with CPUs", len(topology.ComputeNodes()))
		}
		t.Skip("SKIPPED: one NUMA node; .ci/numavm runs this in a VM with two")
	}
	return topology
}

// ext4Folder is a folder on a disk file system, where the task's policy decides on page placement.
func ext4Folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/ext4", "arena")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func assertLocal(t *testing.T, r runReport) {
	t.Helper()
	if len(r.Workers) != 2 || r.Workers[0].Node == r.Workers[1].Node {
		t.Fatalf("workers %+v: want one on each of two nodes", r.Workers)
	}
	for _, w := range r.Workers {
		if w.Pages.Local == 0 || float64(w.Pages.Local) < 0.99*float64(w.Pages.Local+w.Pages.Remote) {
			t.Errorf("worker %s: %d pages on node %d, %d elsewhere", w.ID, w.Pages.Local, w.Node, w.Pages.Remote)
		}
	}
}

// Each of two workers has its arena on its node: when packed, when reused, and when the page cache held the files on the other
// node before.
func TestNUMAVMPages(t *testing.T) {
	topology := inNUMAVM(t)
	dir := ext4Folder(t)
	args := []string{"--arena-dir", dir, "--max-tokens", "2", demoPrompt}
	first := runJSON(t, args...)
	assertLocal(t, first)
	assertLocal(t, runJSON(t, args...))

	dropCaches(t)
	files, err := arenaFiles(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d arena files: %v", len(files), err)
	}
	for _, w := range first.Workers {
		other := topology.ComputeNodes()[0]
		if other.ID == w.Node {
			other = topology.ComputeNodes()[1]
		}
		for _, file := range files {
			if strings.Contains(file, w.ID) {
				readOn(t, other, file)
				assertCachedOn(t, other, file)
			}
		}
	}
	third := runJSON(t, args...)
	assertLocal(t, third)
	for _, w := range third.Workers {
		if w.Arena.PackedBytes != 0 {
			t.Errorf("worker %s packed %d bytes again", w.ID, w.Arena.PackedBytes)
		}
	}
}

// The coordinator's dense weights lie on the nodes whose threads read them, and give the bits that one node's threads give.
func TestNUMAVMDenseWeights(t *testing.T) {
	topology := inNUMAVM(t)
	model := synthModel(t, "qwen2_moe")
	run := func(threads int) (r runReport, logits []byte) {
		file := filepath.Join(t.TempDir(), "logits.safetensors")
		r = runJSON(t, "--model", model, "--coordinator-threads", strconv.Itoa(threads), "--arena-dir", "none", "--ignore-eos", "--max-tokens", "4",
			"--dump-logits", file, "--prompt-tokens", "5,400,17,33,260,7,9")
		logits, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return r, logits
	}
	one, want := run(1)
	if one.DensePages != nil {
		t.Errorf("one thread's weights are placed: %+v", one.DensePages)
	}
	several, got := run(topology.Cores())
	if !slices.Equal(several.Tokens, one.Tokens) || !bytes.Equal(got, want) {
		t.Errorf("tokens %v on all nodes, %v on one; same logits: %v", several.Tokens, one.Tokens, bytes.Equal(got, want))
	}
	if len(several.DensePages) != len(topology.ComputeNodes()) || len(several.Notes) > 0 {
		t.Errorf("placement %+v, notes %q", several.DensePages, several.Notes)
	}
	for _, p := range several.DensePages {
		t.Logf("node %d: %+v", p.Node, p.Pages)
		if p.Pages.Local == 0 || p.Pages.Absent > 0 || p.Pages.LocalShare() < 0.95 {
			t.Errorf("dense weights of node %d: %+v", p.Node, p.Pages)
		}
	}
}

// Every thread of a worker stays within its node's CPUs.
func TestNUMAVMThreads(t *testing.T) {
	topology := inNUMAVM(t)
	p := startProcess(t, "run", "--quiet", "--ignore-eos", "--raw", "--max-tokens", "4000", "--model", longModel(t), "--arena-dir", "none", demoPrompt)
	waitFor(t, waitLimit, func() (bool, string) { return len(p.stdout.String()) > 5, "text: " + p.stderr.String() })
	pids := childProcesses(p.Process.Pid)
	if len(pids) != 2 {
		t.Fatalf("%d workers, want 2", len(pids))
	}
	seen := map[int]bool{}
	for _, pid := range pids {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil || len(tasks) == 0 {
			t.Fatalf("threads of %d: %v", pid, err)
		}
		node := -1
		for _, task := range tasks {
			var tid int
			fmt.Sscan(filepath.Base(task), &tid)
			var set unix.CPUSet
			if err := unix.SchedGetaffinity(tid, &set); err != nil {
				continue // the thread ended
			}
			for cpu := range 64 {
				if !set.IsSet(cpu) {
					continue
				}
				at := nodeOf(topology, cpu)
				if node < 0 {
					node = at
				}
				if at != node {
					t.Errorf("thread %d of worker %d may run on CPU %d of node %d, the worker is on node %d", tid, pid, cpu, at, node)
				}
			}
		}
		seen[node] = true
	}
	if len(seen) != 2 {
		t.Errorf("workers on nodes %v", seen)
	}
	signalProcess(t, p.Process.Pid, syscall.SIGINT)
	p.await(t, waitLimit)
}

func TestNUMAVMUnknownNode(t *testing.T) {
	inNUMAVM(t)
	stderr := moepoolFails(t, exitUsage, "worker", "--node", "5", "--nats", "nats://127.0.0.1:1")
	for _, want := range []string{"5", "0", "1"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q does not name %s", stderr, want)
		}
	}
}

func TestNUMAVMAllNodes(t *testing.T) {
	topology := inNUMAVM(t)
	address, token := reservedport.Address(t), writeFile(t, "secret-of-the-test")
	coordinator := startProcess(t, "coordinator", "--json", "--listen", address, "--token-file", token, "--workers", "2", "--http", "none")
	workers := startProcess(t, "worker", "--all-nodes", "--nats", "nats://"+address, "--token-file", token, "--arena-dir", ext4Folder(t))
	coordinator.awaitOutput(t, &coordinator.stdout, "}")
	if pids := childProcesses(workers.Process.Pid); len(pids) != len(topology.ComputeNodes()) {
		t.Errorf("%d worker processes for %d nodes", len(pids), len(topology.ComputeNodes()))
	}
	var ready coordinatorReady
	mustUnmarshal(t, coordinator.stdout.String(), &ready)
	if len(ready.Workers) != 2 {
		t.Errorf("workers %v", ready.Workers)
	}
}

// assertCachedOn fails unless the page cache holds the file on a node.
func assertCachedOn(t *testing.T, node numa.Node, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(data)
	pages, err := numa.Locate(data, node.ID)
	if err != nil || pages.Local == 0 || pages.Remote > pages.Local/100 {
		t.Fatalf("%s in the page cache: %+v of node %d (%v)", path, pages, node.ID, err)
	}
}

func nodeOf(topology *numa.Topology, cpu int) int {
	for _, n := range topology.Nodes {
		if slices.Contains(n.CPUs, cpu) {
			return n.ID
		}
	}
	return -1
}

func dropCaches(t *testing.T) {
	t.Helper()
	unix.Sync()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		t.Fatal(err)
	}
}

// readOn reads a file on a CPU of a node, so that the page cache holds it there.
func readOn(t *testing.T, node numa.Node, path string) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its odd affinity
		var set unix.CPUSet
		set.Set(node.CPUs[0])
		err := unix.SchedSetaffinity(0, &set)
		if err == nil {
			var f *os.File
			if f, err = os.Open(path); err == nil {
				_, err = io.Copy(io.Discard, f)
				f.Close()
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
