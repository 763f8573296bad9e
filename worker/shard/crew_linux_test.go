package shard

import (
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBackgroundPriority: threads that pack beside what is served have the process's priority until there is work, and then the lowest.
func TestBackgroundPriority(t *testing.T) {
	t.Parallel()
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 less what is called nice
	if err != nil {
		t.Fatal(err)
	}
	const lowest, threads = 1, 3
	var works atomic.Bool
	b, err := newBackground(threads, works.Load)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	run := func(work bool) []int {
		t.Helper()
		works.Store(work)
		priorities := make([]int, 50)
		if err := b.Run(len(priorities), func(i, _ int) (err error) {
			priorities[i], err = unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(priorities)
		return slices.Compact(priorities)
	}
	for range 2 {
		if got := run(false); !slices.Equal(got, []int{own}) {
			t.Errorf("without works: priorities %v, the process has %d", got, own)
		}
	}
	for range 2 {
		if got := run(true); !slices.Equal(got, []int{lowest}) {
			t.Errorf("with works: priorities %v", got)
		}
	}
}
