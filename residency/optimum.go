package residency

import (
	"container/heap"
	"math"
)

// Optimum is a bound that no policy exceeds: the hits of Belady's rule (L. A. Belady, A study of replacement algorithms for a virtual-storage computer, 1966), which knows
// the future. After each request those parts stay whose next request is nearest, whatever was just read may leave at once, and hints and inserted parts cost nothing. The
// room is counted in parts of the smallest size; where all parts have one size and no hint was given, the bound is reached by some policy that sees the future.
func (t *Trace) Optimum(limit int64) (Totals, error) {
	if _, err := t.ledger(nil, limit); err != nil {
		return Totals{}, err
	}
	next := t.nextRequests()
	smallest := int64(math.MaxInt64)
	for _, sizes := range t.sizes {
		for _, s := range sizes {
			smallest = min(smallest, s)
		}
	}
	o := optimum{room: int(limit / smallest), use: map[Part]int{}}
	place := t.places()
	var sum Totals
	at := 0 // in next, which has an entry for each part of each event
	for _, e := range t.events {
		if e.op == seed {
			continue
		}
		if e.op == work {
			sum.Requests++
		}
		for _, id := range e.parts {
			p := Part{e.layer, id}
			if e.op == work {
				if _, resident := o.use[p]; resident {
					sum.Hits++
				} else {
					sum.Misses++
					sum.MissBytes += t.size(place[e.layer], id)
				}
			}
			if e.op == remove {
				delete(o.use, p)
			} else {
				o.keep(p, next[at])
			}
			at++
		}
		o.shrink()
	}
	return sum, nil
}

// never is the next request of a part that has none before it is removed.
const never = math.MaxInt

// nextRequests gives for each part of each event the number of the next event that computes it, or never.
func (t *Trace) nextRequests() []int {
	count := 0
	for _, e := range t.events {
		count += len(e.parts)
	}
	next := make([]int, count)
	coming := map[Part]int{}
	for i := len(t.events) - 1; i >= 0; i-- {
		e := t.events[i]
		for j := len(e.parts) - 1; j >= 0; j-- {
			count--
			p := Part{e.layer, e.parts[j]}
			next[count] = never
			if n, ok := coming[p]; ok {
				next[count] = n
			}
			switch e.op {
			case work:
				coming[p] = i
			case remove:
				delete(coming, p)
			}
		}
	}
	return next
}

// optimum is what Belady's rule keeps.
type optimum struct {
	room int
	use  map[Part]int // resident part → its next request
	far  farthest     // has them, and entries that are out of date
}

func (o *optimum) keep(p Part, next int) {
	if next == never {
		delete(o.use, p)
		return
	}
	o.use[p] = next
	heap.Push(&o.far, coming{p, next})
}

func (o *optimum) shrink() {
	for len(o.use) > o.room {
		c := heap.Pop(&o.far).(coming)
		if next, resident := o.use[c.part]; resident && next == c.next {
			delete(o.use, c.part)
		}
	}
}

type coming struct {
	part Part
	next int
}

// farthest is a heap whose first element has the farthest next request.
type farthest []coming

func (f farthest) Len() int           { return len(f) }
func (f farthest) Less(i, j int) bool { return f[i].next > f[j].next }
func (f farthest) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *farthest) Push(x any)        { *f = append(*f, x.(coming)) }
func (f *farthest) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}
