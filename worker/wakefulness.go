package worker

import (
	"time"

	"github.com/moepool/moepool/transport"
)

// wakefulness counts silence only while this process runs. What came while it was stopped, or got no CPU, is heard only afterwards: that is nobody's
// silence.
type wakefulness struct {
	looked  time.Time // last
	counted float64   // seconds of silence until then
}

// mostCounted is what counts of the time between two looks, which are due at each beat.
const mostCounted = 3 * transport.ProgressInterval / 2

// silence takes for how many seconds something has not been heard, at each look. It gives how many of them count.
func (w *wakefulness) silence(seconds float64, now time.Time) float64 {
	passed := seconds
	if !w.looked.IsZero() {
		passed = min(now.Sub(w.looked), mostCounted).Seconds()
	}
	w.looked = now
	w.counted = min(w.counted+passed, seconds)
	return w.counted
}
