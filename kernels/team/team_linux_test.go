package team_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/numa"
)

func TestThreadsArePinned(t *testing.T) {
	t.Parallel()
	cpus, err := numa.ThreadAffinity(0)
	if err != nil {
		t.Fatal(err)
	}
	threads := len(cpus) + 1
	tm := newTeam(t, threads, cpus)
	if !tm.Pinned() {
		t.Skip("this process may not set the affinity of its threads")
	}
	for range 20 {
		var all sync.WaitGroup
		all.Add(threads)
		if err := tm.Run(threads, func(_, thread int) error {
			all.Done()
			all.Wait() // each thread has one job
			mine, err := numa.ThreadAffinity(0)
			if err != nil {
				return err
			}
			want := cpus // the caller's affinity is as it was
			if thread > 0 {
				want = []int{cpus[thread%len(cpus)]}
			}
			if !slices.Equal(mine, want) {
				return fmt.Errorf("thread %d may run on CPUs %v, want %v", thread, mine, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// A mapped file that is truncated underneath must not kill the process: each thread's fault becomes an error with its address.
func TestFaultBecomesError(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	page := os.Getpagesize()
	if err := file.Truncate(int64(8 * page)); err != nil {
		t.Fatal(err)
	}
	data, err := unix.Mmap(int(file.Fd()), 0, 8*page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(data)
	if err := file.Truncate(int64(page)); err != nil {
		t.Fatal(err)
	}
	tm := newTeam(t, 3, nil)
	var total atomic.Int64
	var all sync.WaitGroup
	all.Add(3)
	var faults atomic.Int32
	err = tm.Run(8, func(i, _ int) error {
		if i < 3 {
			all.Done()
			all.Wait() // so that each thread meets a fault
		}
		faults.Add(1)
		total.Add(int64(data[i*page]))
		faults.Add(-1)
		return nil
	})
	var fault *team.FaultError
	if !errors.As(err, &fault) {
		t.Fatalf("got %v, want a *FaultError", err)
	}
	if faults.Load() != 7 {
		t.Fatalf("%d jobs touched missing pages, want 7", faults.Load())
	}
	if want := uintptr(unsafe.Pointer(unsafe.SliceData(data))) + uintptr(page); fault.Address != want {
		t.Fatalf("fault at %#x, want %#x", fault.Address, want)
	}
}

// twoNodes is a team on two nodes that share one CPU, so that every machine has it.
func twoNodes(t *testing.T, threads int) *team.Team {
	t.Helper()
	cpus, err := numa.ThreadAffinity(0)
	if err != nil {
		t.Fatal(err)
	}
	tm, err := team.NewOnNodes(threads, []numa.Node{{ID: 3, Cores: cpus[:1]}, {ID: 4}, {ID: 5, Cores: cpus[:1]}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tm.Close)
	if !tm.Pinned() {
		t.Skip("SKIPPED: this process may not set the affinity of its threads")
	}
	return tm
}

func TestRunRanges(t *testing.T) {
	t.Parallel()
	tm := twoNodes(t, 3)
	if want := []team.Node{{ID: 3, Threads: 2}, {ID: 5, Threads: 1}}; !slices.Equal(tm.Nodes(), want) {
		t.Fatalf("nodes %v, want %v", tm.Nodes(), want)
	}
	for _, ends := range [][]int{{0, 0}, {1, 1}, {0, 1}, {5, 7}, {0, 40}, {40, 40}, {300, 700}} {
		counts := make([]atomic.Int32, ends[1])
		if err := tm.RunRanges(ends, func(i, _ int) error { counts[i].Add(1); return nil }); err != nil {
			t.Fatal(err)
		}
		for i := range counts {
			if c := counts[i].Load(); c != 1 {
				t.Fatalf("ends %v: job %d ran %d times", ends, i, c)
			}
		}
	}
	if err := tm.Run(9, func(int, int) error { return nil }); err != nil { // the other kind of run in between
		t.Fatal(err)
	}
	if err := tm.RunRanges([]int{4, 9}, func(i, _ int) error { return fmt.Errorf("job %d", i) }); err == nil || err.Error() != "job 0" {
		t.Fatalf("got %v, want job 0", err)
	}
	if err := tm.RunRanges([]int{4}, func(int, int) error { return nil }); err == nil {
		t.Fatal("jobs of one node ran on a team of two")
	}
}

// Two jobs that wait for each other, one of each node: each runs on its own node's thread.
func TestJobsRunOnTheirNode(t *testing.T) {
	t.Parallel()
	tm := twoNodes(t, 2)
	for range 50 {
		var both sync.WaitGroup
		both.Add(2)
		if err := tm.RunRanges([]int{1, 2}, func(i, thread int) error {
			both.Done()
			both.Wait()
			if i != thread {
				return fmt.Errorf("job of node %d ran on thread %d", i, thread)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOneNodeHasNoRanges(t *testing.T) {
	t.Parallel()
	for _, nodes := range [][]numa.Node{nil, {{ID: 1, Cores: []int{0}}}, {{ID: 0, Cores: []int{0}}, {ID: 1, Cores: []int{1 << 19}}}} {
		tm, err := team.NewOnNodes(2, nodes)
		if err != nil {
			t.Fatal(err)
		}
		defer tm.Close()
		if tm.Nodes() != nil {
			t.Errorf("nodes %v of %v", tm.Nodes(), nodes)
		}
	}
}
