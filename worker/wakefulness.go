package worker

import (
	"time"

	"github.com/moepool/moepool/transport"
)

// wakefulness knows whether this process has run all the time. What came while it was stopped, or got no CPU, is heard only afterwards: that is
// nobody's silence.
type wakefulness struct {
	looked time.Time // last
	woke   time.Time // when it was last found to have paused; zero: never
}

// longestLook is the time between two looks, which are due at each beat, from which on the process has paused.
const longestLook = 2 * transport.ProgressInterval

// silence takes for how many seconds something has not been heard, at each look. It gives how many of them count: those since the last pause.
func (w *wakefulness) silence(seconds float64, now time.Time) float64 {
	if !w.looked.IsZero() && now.Sub(w.looked) > longestLook {
		w.woke = now
	}
	w.looked = now
	if w.woke.IsZero() {
		return seconds
	}
	return min(seconds, now.Sub(w.woke).Seconds())
}
