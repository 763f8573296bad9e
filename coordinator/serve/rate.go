package serve

import (
	"sync"
	"time"
)

// rateWindow is over how many seconds a rate is taken.
const rateWindow = 10

// rate counts events of the last seconds.
type rate struct {
	mu     sync.Mutex
	counts [rateWindow]int // of second modulo the window
	newest int64           // second, Unix
	oldest int64           // second of the first event since there was none
	all    uint64
}

// add counts an event; times don't go backwards by more than the window.
func (r *rate) add(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now.Unix())
	if r.sum() == 0 {
		r.oldest = now.Unix()
	}
	r.counts[r.newest%rateWindow]++
	r.all++
}

// total is the number of events since the start.
func (r *rate) total() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

// perSecond is the mean over the window, or since the events began.
func (r *rate) perSecond(now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now.Unix())
	return float64(r.sum()) / float64(max(1, min(rateWindow, r.newest-r.oldest+1)))
}

// forget clears the seconds between the newest event and now.
func (r *rate) forget(second int64) {
	for n := 0; r.newest < second; n++ {
		if n == rateWindow {
			r.newest = second
			break
		}
		r.newest++
		r.counts[r.newest%rateWindow] = 0
	}
}

func (r *rate) sum() (n int) {
	for _, c := range r.counts {
		n += c
	}
	return n
}
