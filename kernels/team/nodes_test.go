package team

import (
	"slices"
	"testing"

	"github.com/moepool/moepool/numa"
)

// Threads are dealt to nodes in turn, whatever the order and number of their cores.
func TestDeal(t *testing.T) {
	t.Parallel()
	cpus, of := deal([]numa.Node{{ID: 2, Cores: []int{8, 9, 10}}, {ID: 4}, {ID: 7, Cores: []int{0, 1}}})
	if !slices.Equal(cpus, []int{8, 0, 9, 1, 10}) || !slices.Equal(of, []int{0, 2, 0, 2, 0}) {
		t.Fatalf("CPUs %v of nodes %v", cpus, of)
	}
	if cpus, of := deal(nil); cpus != nil || of != nil {
		t.Fatalf("CPUs %v of nodes %v without nodes", cpus, of)
	}
}

// A thread takes its own node's jobs first, then those of the nodes after it.
func TestTakeOwnJobsFirst(t *testing.T) {
	t.Parallel()
	tm := &Team{ranged: true, ranges: make([]jobRange, 3), home: []int{0, 1, 2, 1}}
	begin := int64(0)
	for k, end := range []int64{3, 5, 6} {
		tm.ranges[k].next.Store(begin)
		tm.ranges[k].end = end
		begin = end
	}
	for _, step := range []struct {
		thread int
		job    int64
	}{{3, 3}, {0, 0}, {1, 4}, {1, 5}, {2, 1}, {3, 2}, {0, -1}, {1, -1}, {2, -1}} {
		if job := tm.take(step.thread); job != step.job {
			t.Fatalf("thread %d took job %d, want %d", step.thread, job, step.job)
		}
	}
}
