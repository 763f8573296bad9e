package dispatch

import (
	"fmt"
	"testing"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/internal/leaks"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// TestCompute: the same sums for any number of workers and parts, any payload limit and both kinds of rows, call after call.
func TestCompute(t *testing.T) { overLanes(t, overCompute) }

func overCompute(t *testing.T, lane string) {
	for _, parts := range []int{1, 2} {
		for _, workers := range []int{1, 2, 5} {
			for _, payload := range []int{0, 64 << 10} {
				t.Run(fmt.Sprintf("parts=%d/workers=%d/payload=%d", parts, workers, payload), func(t *testing.T) {
					t.Parallel()
					b := newLaneBench(t, lane, parts, workers, payload, nil)
					for i, rows := range []int{1, 90, 3} {
						c := testCall(i%2 == 0, 500, someChoices(rows))
						stats, err := b.dispatcher.Compute(testContext(t), c)
						if err != nil {
							t.Fatal(err)
						}
						expectSums(t, c, parts)
						if stats.Hits < 1 || stats.Hits+stats.Misses < parts || stats.BytesRead < 10 {
							t.Fatalf("%+v", stats)
						}
					}
				})
			}
		}
	}
}

// TestNothingToDo: no request to workers, and for rows, that have nothing to do.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 3, 0, nil)
	c := testCall(true, 64, make([]router.Choice, 4))
	if _, err := b.dispatcher.Compute(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	c.Choices[2] = router.Choice{Experts: []int32{1, 4}, Weights: []float32{1, 2}} // both of w1
	stats, err := b.dispatcher.Compute(testContext(t), c)
	if err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, 1)
	if (stats != engine.ExpertStats{Hits: 1, Misses: 1, MissBytes: 10, BytesRead: 10, Unledgered: 1}) {
		t.Fatalf("%+v", stats)
	}
	for i, f := range b.workers {
		want := [2]int{0, 0}
		if i == 1 {
			want = [2]int{1, 1}
		}
		if got := f.counts(); got != want {
			t.Errorf("worker %d got %v works and rows, want %v", i, got, want)
		}
	}
	n := b.dispatcher.Counters()
	if len(n) != 1 || n["w1"].Requests != 1 || n["w1"].Rows != 1 || n["w1"].Hits != 1 || n["w1"].Misses != 1 || n["w1"].BytesRead != 10 || n["w1"].Latency <= 0 {
		t.Fatalf("%+v", n)
	}
	if got := b.members.computed[testLayer]; len(got) != 2 || got[0] != 1 || got[1] != 4 {
		t.Fatalf("computed %v", b.members.computed)
	}
}
