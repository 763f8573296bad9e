//go:build linux

package worker

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
)

// TestVMWorkersStayOnTheirNodes needs a machine with two nodes: CGO_ENABLED=0 go test -exec 'numavm --' ./worker -run VM
//
// Two workers share a model and then change nodes, so that each finds its arena in the page cache of the other node. Their threads
// stay within their node's CPUs, and at least 99 % of their pages lie on their node, on a disk, on tmpfs and in anonymous memory.
func TestVMWorkersStayOnTheirNodes(t *testing.T) {
	if os.Getenv("NUMAVM") != "1" {
		t.Skip("needs numavm: CGO_ENABLED=0 go test -exec 'numavm --' ./worker -run VM")
	}
	topology, err := numa.Read()
	if err != nil {
		t.Fatal(err)
	}
	if len(topology.ComputeNodes()) < 2 {
		t.Fatalf("numavm has nodes %+v, want 2 with CPUs", topology.Nodes)
	}
	b := newBench(t, synth.Tiny("mixtral"))
	var layers [2][]transport.LayerParts
	for _, l := range shard.Whole(b.model.Config(), 1) {
		layers[0] = append(layers[0], transport.LayerParts{Layer: l.Layer, Parts: l.Parts[:4]})
		layers[1] = append(layers[1], transport.LayerParts{Layer: l.Layer, Parts: l.Parts[4:]})
	}
	for _, base := range []string{"/ext4", "/dev/shm", "none"} {
		dir := base
		if base != "none" {
			if dir, err = os.MkdirTemp(base, "arena"); err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
		}
		for round := range 2 {
			for i := range 2 {
				node := topology.ComputeNodes()[(i+round)%2]
				id := fmt.Sprint("w", i)
				g := b.startProcess(id, strconv.Itoa(node.ID), dir, kernels.F32)
				idle := b.awaitState(id, transport.StateIdle)
				if !idle.Bound || idle.Node != node.ID || len(idle.CPUs) == 0 {
					t.Errorf("%s: %+v", id, idle)
				}
				if err := b.assign(id, 1, 1, b.identity(kernels.F32, 1), layers[i]); err != nil {
					t.Fatal(err)
				}
				ready := b.awaitState(id, transport.StateReady)
				if total := ready.Pages.Local + ready.Pages.Remote; ready.Pages.Local*100 < total*99 || total*int64(os.Getpagesize()) < ready.TotalBytes {
					t.Errorf("%s in %s on node %d, round %d: pages %+v of %d bytes", id, base, node.ID, round, ready.Pages, ready.TotalBytes)
				}
				if base != "none" && (round == 1) != (ready.Arena.PackedBytes == 0) {
					t.Errorf("%s in %s, round %d: %+v", id, base, round, ready.Arena)
				}
				threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", ready.PID))
				if err != nil || len(threads) < 2 {
					t.Fatalf("threads of %s: %v, %v", id, threads, err)
				}
				for _, thread := range threads {
					tid, _ := strconv.Atoi(thread.Name())
					cpus, err := numa.ThreadAffinity(tid)
					if err != nil {
						continue // it has ended
					}
					for _, cpu := range cpus {
						if !slices.Contains(node.CPUs, cpu) {
							t.Errorf("%s: thread %d may run on CPU %d, node %d has %v", id, tid, cpu, node.ID, node.CPUs)
						}
					}
				}
				g.Stop(patience)
			}
		}
	}
	// A node that is not there is refused with those that are.
	g := b.startProcess("lost", "7", "none", kernels.F32)
	if e := <-g.Exits(); e.Err == nil {
		t.Error("a worker runs on node 7")
	} else {
		t.Log(e)
	}
}
