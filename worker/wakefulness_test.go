package worker

import (
	"testing"
	"time"
)

// TestWakefulness: what was not heard while the process was stopped is no silence.
func TestWakefulness(t *testing.T) {
	t.Parallel()
	var w wakefulness
	begin := time.Now()
	for _, look := range []struct{ at, unheard, want float64 }{
		{0, 0, 0}, {1, 1, 1}, {2.2, 2.2, 2.2}, {3, 0.4, 0.4}, {4, 1.4, 1.4}, {10, 7.4, 2.9}, {11, 0.2, 0.2}, {12, 1.2, 1.2}, {12.5, 1.7, 1.7},
		{15, 4.2, 3.2}, {16, 5.2, 4.2}, {18, 7.2, 5.7},
	} {
		at := begin.Add(time.Duration(look.at * float64(time.Second)))
		if got := w.silence(look.unheard, at); got < look.want-1e-6 || got > look.want+1e-6 {
			t.Errorf("at %.1f s, unheard for %.1f s: %.3f s count, want %.1f", look.at, look.unheard, got, look.want)
		}
	}
}
