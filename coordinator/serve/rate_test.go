package serve

import (
	"testing"
	"time"
)

func TestRate(t *testing.T) {
	t.Parallel()
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	var r rate
	if got := r.perSecond(at(1000)); got != 0 {
		t.Errorf("%v without events", got)
	}
	for second := int64(2000); second < 2003; second++ {
		for range 4 {
			r.add(at(second))
		}
	}
	for second, want := range map[int64]float64{2002: 4, 2005: 2, 2011: 0.4, 2013: 0, 9999: 0} {
		copied := rate{counts: r.counts, newest: r.newest, oldest: r.oldest}
		if got := copied.perSecond(at(second)); got != want {
			t.Errorf("at %d: %v events a second, want %v", second, got, want)
		}
	}
	r.add(at(9999))
	if got := r.perSecond(at(9999)); got != 1 {
		t.Errorf("%v after a pause, want 1", got)
	}
}
