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
		{0, 0, 0}, {1, 1, 1}, {2.2, 2.2, 2.2}, {3, 0.4, 0.4}, {4, 1.4, 1.4}, {10, 7.4, 0}, {11, 8.4, 1}, {12, 0.1, 0.1}, {13, 1.1, 1.1}, {13.5, 1.6, 1.6},
		{15.4, 3.5, 3.5}, {16.4, 4.5, 4.5}, {17.4, 5.5, 5.5},
	} {
		at := begin.Add(time.Duration(look.at * float64(time.Second)))
		if got := w.silence(look.unheard, at); got < look.want-1e-6 || got > look.want+1e-6 {
			t.Errorf("at %.1f s, unheard for %.1f s: %.3f s count, want %.1f", look.at, look.unheard, got, look.want)
		}
	}
}
