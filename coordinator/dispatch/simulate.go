package dispatch

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// Simulator computes calls as a Dispatcher does, by the same splitting and the same decisions, but on workers that are only delays: time is virtual,
// and sums are zero. It shows what a cluster costs that isn't there.
type Simulator struct {
	// Delay is how long a worker takes from the sending of its share of some rows to its answer, for that many items (expert parts of rows)
	// and these distinct expert parts.
	Delay func(worker string, rows, items int, parts []uint32) time.Duration
	// Message is the coordinator's time for sending one message, and for taking one answer.
	Message time.Duration

	hedgeFloor time.Duration
	roster     roster
	paces      []pace
	job        job
	view       *view
	answers    answers
	now        time.Duration
	zero       transport.Result
}

// SimulatedCall is what one call has cost.
type SimulatedCall struct {
	Took   time.Duration // virtual: until the last answer was taken
	Own    time.Duration // really spent in splitting, deciding and adding sums
	Asked  int           // messages sent
	Hedges int
}

// NewSimulator makes one for a plan, with the usual deadlines.
func NewSimulator(plan *placement.Plan, parts int) (*Simulator, error) {
	o := Options{Parts: parts}
	if parts < 1 {
		return nil, fmt.Errorf("dispatch: %d parts; at least 1", parts)
	}
	s := &Simulator{}
	known, err := newOwners(&s.roster, plan)
	if err != nil {
		return nil, err
	}
	o.defaults()
	n := len(s.roster.ids)
	s.hedgeFloor, s.paces = o.HedgeFloor, make([]pace, n)
	s.view = &view{owners: known, term: 1, why: make([]error, n), avoid: make([]bool, n), plain: true}
	s.job.parts, s.job.roster = parts, &s.roster
	s.job.delay = func(worker int32, rows int) time.Duration { return s.paces[worker].delay(rows, s.hedgeFloor) }
	s.job.limits = o.limits()
	return s, nil
}

// Compute simulates a call. Sums are added for their cost, but are zero.
func (s *Simulator) Compute(call *engine.ExpertCall) (SimulatedCall, error) {
	var c SimulatedCall
	own := time.Now()
	stop := func() { c.Own += time.Since(own) }
	j := &s.job
	s.now, s.answers = 0, s.answers[:0]
	if err := j.start(call, s.view); err != nil {
		return c, err
	}
	seen := time.Duration(0) // up to when the job has seen time pass
	for {
		for i := 0; i < len(j.out); i++ {
			switch a := j.out[i].attempt; j.out[i].kind {
			case actSend:
				c.Asked++
				s.now += s.Message
				stop()
				at := s.now + s.Delay(s.roster.ids[a.worker], len(a.rows), len(a.work.Parts), a.distinct)
				heap.Push(&s.answers, answer{at: at, sent: s.now, order: c.Asked, attempt: a})
				own = time.Now()
			case actAdd:
				s.now += s.Message
				s.add(call, a)
			}
		}
		j.out = j.out[:0]
		if j.outcome != going {
			break
		}
		tick := seen + tickInterval
		if next := j.next(); next > 0 {
			tick = min(tick, seen+next)
		}
		if len(s.answers) > 0 && s.answers[0].at <= tick {
			r := heap.Pop(&s.answers).(answer)
			s.now = max(s.now, r.at)
			if r.attempt.state == waiting {
				s.paces[r.attempt.worker].observe(len(r.attempt.rows), r.at-r.sent)
				j.answered(r.attempt, &s.zero)
			}
			continue
		}
		s.now = max(s.now, tick)
		for _, a := range j.attempts {
			if a.state == waiting {
				j.progressed(a) // its worker says that it lives
			}
		}
		j.elapsed(s.now - seen)
		seen = s.now
	}
	stop()
	c.Took, c.Hedges = s.now, j.stats.Hedges
	return c, j.err
}

// add costs what adding an attempt's sums does.
func (s *Simulator) add(call *engine.ExpertCall, a *attempt) {
	hidden := call.Rows.Columns
	if len(s.zero.Sum) < hidden {
		s.zero.Sum = make([]int64, hidden)
	}
	for _, row := range a.rows {
		addRow(call, int(row), s.zero.Sum[:hidden])
	}
}

// answer is one on its way.
type answer struct {
	at, sent time.Duration
	order    int
	attempt  *attempt
}

// answers is a heap by time of arrival.
type answers []answer

func (h answers) Len() int { return len(h) }
func (h answers) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h answers) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *answers) Push(x any)   { *h = append(*h, x.(answer)) }
func (h *answers) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
