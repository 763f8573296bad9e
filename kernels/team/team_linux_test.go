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
