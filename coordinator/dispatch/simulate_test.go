package dispatch

import (
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator/router"
)

// TestSimulator: a call takes as long as its slowest worker and the messages; a slow worker with replicas is hedged, without it is waited for.
func TestSimulator(t *testing.T) {
	t.Parallel()
	plan := testPlan(t, 1, 1, 2)
	s, err := NewSimulator(plan, 1)
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	slow := time.Duration(0)
	s.Message = time.Millisecond
	s.Delay = func(worker string, rows, items int, parts []uint32) time.Duration {
		asked = append(asked, worker)
		if rows != 2 || items != 2 || len(parts) != 1 {
			t.Errorf("%s is asked for %d rows, %d items, parts %v", worker, rows, items, parts)
		}
		if worker == s.roster.ids[0] {
			return 10*time.Millisecond + slow
		}
		return 4 * time.Millisecond
	}
	c := testCall(true, 64, []router.Choice{{Experts: []int32{0, 1}, Weights: []float32{1, 1}}, {Experts: []int32{0, 1}, Weights: []float32{1, 1}}})
	for range 2 {
		got, err := s.Compute(c)
		// Sent at 1 and 2 ms, answers at 11 and 6 or at 12 and 5, and one more for taking the last.
		if err != nil || got.Asked != 2 || got.Hedges != 0 || got.Took != 12*time.Millisecond && got.Took != 13*time.Millisecond {
			t.Fatalf("%+v %v", got, err)
		}
	}
	if len(asked) != 4 {
		t.Fatal(asked)
	}
	slow = 6 * time.Second // longer than silence, but it lives, and nobody else has its expert
	got, err := s.Compute(c)
	if err != nil || got.Asked != 2 || got.Took < 6010*time.Millisecond || got.Took > 6013*time.Millisecond {
		t.Fatalf("%+v %v", got, err)
	}
}
