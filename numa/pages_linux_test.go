package numa_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/numa"
)

func anonymous(t *testing.T, pages int) []byte {
	t.Helper()
	data, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Madvise(data, unix.MADV_NOHUGEPAGE) // pages are counted one by one below
	t.Cleanup(func() { unix.Munmap(data) })
	return data
}

// firstNode is a node of this host that has memory.
func firstNode(t *testing.T) int {
	t.Helper()
	topology, err := numa.Read()
	if err != nil {
		t.Fatal(err)
	}
	if nodes := topology.ComputeNodes(); len(nodes) > 1 {
		t.Skip("the counts below are those of a host with one node; numavm tests cover more")
	}
	return topology.ComputeNodes()[0].ID
}

func TestLocate(t *testing.T) {
	t.Parallel()
	node, page := firstNode(t), os.Getpagesize()
	const pages = 5000 // more than a batch
	data := anonymous(t, pages)
	for i := 0; i < pages; i += 2 {
		data[i*page] = 1
	}
	check := func(name string, data []byte, want numa.Pages) {
		t.Helper()
		got, err := numa.Locate(data, node)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	check("every second page", data, numa.Pages{Local: pages / 2, Absent: pages / 2})
	check("nothing", nil, numa.Pages{})
	// Slices that begin and end inside pages count the pages that they touch.
	check("inside one page", data[10:20], numa.Pages{Local: 1})
	check("the end of one and the beginning of the next", data[page-1:page+1], numa.Pages{Local: 1, Absent: 1})
	check("four pages, two of them in part", data[page/2:3*page+page/2], numa.Pages{Local: 2, Absent: 2})
}

func TestMigrateOfAFile(t *testing.T) {
	t.Parallel()
	node, page := firstNode(t), os.Getpagesize()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, 64*page), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := unix.Mmap(int(file.Fd()), 0, 64*page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(data)
	if got, err := numa.Locate(data, node); err != nil || got.Local+got.Absent != 64 {
		t.Fatalf("before: %+v, %v", got, err)
	}
	got, err := numa.Migrate(data[1:], node)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(numa.Pages{Local: 64}, got); diff != "" {
		t.Error(diff)
	}
	if err := file.Truncate(int64(page)); err != nil {
		t.Fatal(err)
	}
	if _, err := numa.Migrate(data, node); err == nil {
		t.Error("a truncated file: no error")
	}
}

func TestPrefer(t *testing.T) {
	t.Parallel()
	if !numa.Try().Mbind {
		t.Skip("this process may not call mbind")
	}
	node, data := firstNode(t), anonymous(t, 8)
	for _, strict := range []bool{false, true} {
		if err := numa.Prefer(data[100:5000], node, strict); err != nil {
			t.Error(err)
		}
	}
	if err := numa.Prefer(nil, node, false); err != nil {
		t.Error(err)
	}
	for _, missing := range []int{-1, 1000, 1 << 20} {
		if err := numa.Prefer(data, missing, true); err == nil {
			t.Errorf("node %d: no error", missing)
		}
	}
}

func TestPinThread(t *testing.T) {
	t.Parallel()
	result := make(chan error)
	go func() {
		// The thread isn't unlocked, so it ends with this goroutine.
		result <- pinAndCompare()
	}()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

func TestTryChangesNothing(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := numa.ThreadAffinity(0)
	if err != nil {
		t.Fatal(err)
	}
	first, second := numa.Try(), numa.Try()
	if first != second {
		t.Errorf("%+v, then %+v", first, second)
	}
	after, err := numa.ThreadAffinity(0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

// A pinned thread, even if it is the main one, doesn't narrow what the process may use.
func TestReadWithAPinnedThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := numa.Read()
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := numa.ThreadAffinity(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := numa.PinThread(cpus[0]); err != nil {
		t.Skipf("this process may not set its affinity: %v", err)
	}
	after, err := numa.Read()
	if err := numa.SetThreadAffinity(cpus); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Allowed, after.Allowed); diff != "" {
		t.Error(diff)
	}
}

func TestPagesSum(t *testing.T) {
	t.Parallel()
	p := numa.Pages{Local: 1, Remote: 2, Absent: 3, Unknown: 4}
	p.Add(numa.Pages{Local: 10, Remote: 20, Absent: 30, Unknown: 40})
	if diff := cmp.Diff(numa.Pages{Local: 11, Remote: 22, Absent: 33, Unknown: 44}, p); diff != "" {
		t.Error(diff)
	}
	if share := (numa.Pages{Local: 3, Remote: 1, Absent: 100}).LocalShare(); share != 0.75 {
		t.Errorf("share %v, want 0.75", share)
	}
	if share := (numa.Pages{Absent: 1}).LocalShare(); share != 1 {
		t.Errorf("share of nothing: %v, want 1", share)
	}
}
