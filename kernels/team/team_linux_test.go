package team_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/kernels/team"
)

func TestThreadsArePinned(t *testing.T) {
	t.Parallel()
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for cpu := range 1024 {
		if allowed.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	threads := len(cpus) + 1
	tm := newTeam(t, threads, cpus)
	if !tm.Pinned() {
		t.Skip("this process may not set the affinity of its threads")
	}
	check := func(_, thread int) error {
		var mask unix.CPUSet
		if err := unix.SchedGetaffinity(0, &mask); err != nil {
			return err
		}
		if want := cpus[thread%len(cpus)]; mask.Count() != 1 || !mask.IsSet(want) {
			return fmt.Errorf("thread %d may run on %d CPUs, want CPU %d only", thread, mask.Count(), want)
		}
		return nil
	}
	for range 20 {
		if err := tm.Run(4*threads, check); err != nil {
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
	var faults atomic.Int32
	err = tm.Run(8, func(i, _ int) error {
		if i > 0 {
			faults.Add(1)
		}
		total.Add(int64(data[i*page]))
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
