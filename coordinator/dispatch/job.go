package dispatch

import (
	"errors"
	"fmt"
	"time"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/transport"
)

// actionKind is what a job wants done.
type actionKind uint8

const (
	actSend      actionKind = iota + 1 // send the attempt's work to its worker
	actAdd                             // add the attempt's result to the call's sums
	actForget                          // the attempt's result is not wanted any more, whether it has come or not
	actFailed                          // the attempt's worker has not done it: let others do its work for a while
	actLate                            // others were faster than the attempt's worker: the same
	actUncovered                       // tell of the job's uncovered parts
)

type action struct {
	kind    actionKind
	attempt *attempt
}

// outcome is how far a job is.
type outcome uint8

const (
	going  outcome = iota
	done           // every item is counted
	failed         // err says why
	lacks          // the call is to be computed without the uncovered parts
)

// failure is why a worker is not waited for.
type failure struct {
	reason string
	err    error // nil for silence
}

// connectionError is a failure of this side's connection, which is no worker's.
type connectionError struct{ error }

func (e *connectionError) Unwrap() error { return e.error }

// ours says that it isn't the worker that failed.
func (f failure) ours() bool {
	c := (*connectionError)(nil)
	return errors.As(f.err, &c)
}

// bar keeps a worker that failed from being asked again at once by the same call.
type bar struct{ until, step time.Duration }

const (
	firstBar = 250 * time.Millisecond
	longBar  = 4 * time.Second
)

// job is one call: which items are with whom, and what answers, failures, new plans and passing time mean for them. It is a pure state
// machine: no clock, no network. Each item is counted exactly once; for that an item belongs to one attempt that is waiting or an
// orphan, and perhaps to one more that hedges it.
type job struct {
	splitter
	limits limits
	roster *roster
	// delay is after how long without an answer a worker's share of some rows is hedged; 0: it isn't known yet.
	delay func(worker int32, rows int) time.Duration

	call      *engine.ExpertCall
	view      *view
	open      int           // attempts whose items are not counted; hedges are not among them
	passed    time.Duration // since the start
	troubled  bool          // something has failed: causes and bars mean something
	causes    []failure     // by worker: the last one
	bars      []bar         // by worker
	uncovered []uint32      // expert parts that no worker takes at present, ascending
	out       []action
	outcome   outcome
	err       error
	stats     engine.ExpertStats // retries, hedges and waits
}

// limits are a job's times, and what it does with uncovered parts.
type limits struct {
	silence, total, missing time.Duration
	grace                   time.Duration // for how long the reason of a worker's end is waited for
	onMissing               OnMissing
}

// start begins a call.
func (j *job) start(call *engine.ExpertCall, v *view) error {
	j.stats = engine.ExpertStats{}
	layer, ok := v.owners.layers[call.Layer]
	if !ok {
		return fmt.Errorf("layer %d has no experts in the placement", call.Layer)
	}
	j.call, j.view, j.open, j.passed, j.outcome, j.err = call, v, 0, 0, going, nil
	j.uncovered, j.out = j.uncovered[:0], j.out[:0]
	j.reset(layer, len(j.roster.ids))
	if j.troubled {
		j.troubled = false
		clear(j.causes)
		clear(j.bars)
	}
	j.know()
	if err := j.check(call); err != nil {
		return err
	}
	if v.plain && layer.all == nil {
		j.toPrimaries(call)
	} else {
		j.rankAll()
		j.toBest(call, nil, avoided, nobody)
	}
	j.send(nil)
	if j.rest != nil {
		j.repair(true)
	}
	j.finish()
	return nil
}

// know makes room for what is known by worker.
func (j *job) know() {
	for len(j.causes) < len(j.roster.ids) {
		j.causes, j.bars = append(j.causes, failure{}), append(j.bars, bar{})
	}
}

// rankAll judges all workers.
func (j *job) rankAll() {
	for i := range j.rank {
		switch {
		case i >= len(j.view.why) || j.view.why[i] != nil || j.troubled && j.passed < j.bars[i].until:
			j.rank[i] = unusable
		case j.view.avoid[i]:
			j.rank[i] = avoided
		default:
			j.rank[i] = good
		}
	}
}

// send wants the attempts sent that a split has made; from is what they are made of, nil for the call.
func (j *job) send(from *attempt) {
	if from != nil {
		for _, a := range j.made {
			a.number, a.since = from.number, from.since
		}
		if j.rest != nil {
			j.rest.number, j.rest.since = from.number, from.since
		}
	}
	if j.rest != nil {
		j.open++
	}
	for _, a := range j.made {
		j.open++
		j.dispatch(a)
	}
}

// dispatch wants an attempt sent.
func (j *job) dispatch(a *attempt) {
	a.number++
	a.work.Epoch, a.work.Term, a.work.Attempt = j.view.owners.plan.Epoch, j.view.term, a.number
	if j.layer.all != nil && a.rival == nil {
		a.hedgeAfter = j.delay(a.worker, len(a.rows))
	}
	j.want(actSend, a)
}

func (j *job) want(kind actionKind, a *attempt) { j.out = append(j.out, action{kind, a}) }

// finish notes that nothing is missing any more.
func (j *job) finish() {
	if j.open == 0 && j.outcome == going {
		j.outcome = done
	}
}

// progressed notes a sign of life.
func (j *job) progressed(a *attempt) {
	a.quiet = 0
	if a.suspect && int(a.worker) < len(j.view.why) && j.view.why[a.worker] == nil {
		a.suspect, a.since = false, -1
		j.repair(false)
	}
}

// answered takes a result. False: it is not wanted, and nothing has changed. Else the job wants it added or forgotten, now or later.
func (j *job) answered(a *attempt, r *transport.Result) bool {
	if a.state != waiting {
		return false
	}
	a.result = r
	if j.troubled {
		j.bars[a.worker] = bar{}
	}
	if a.rival == nil {
		j.count(a)
		j.open--
		j.dropHedges(a)
		if len(j.uncovered) > 0 {
			j.repair(false)
		}
		j.finish()
		return true
	}
	j.hedged(a)
	return true
}

func (j *job) count(a *attempt) {
	a.state = over
	j.want(actAdd, a)
}

// forget gives an attempt up.
func (j *job) forget(a *attempt) {
	if a.state == waiting || a.state == held {
		j.want(actForget, a)
	}
	a.state = over
}

// refused notes that an attempt will have no result: its worker refused it, failed, or is gone.
func (j *job) refused(a *attempt, why failure) {
	if a.state != waiting {
		return
	}
	a.state = over
	j.blame(a, why)
	if refusal(why) == transport.CodeWrongEpoch && a.work.Epoch != j.view.owners.plan.Epoch {
		j.bars[a.worker].until = j.passed // work of the present plan is another matter
	}
	if refusal(why) == transport.CodeStaleTerm {
		j.fail(j.workerError(a.worker)) // another coordinator has taken over
		return
	}
	switch {
	case a.rival != nil:
		j.dropHedges(a.rival)
	case len(a.hedges) > 0:
		j.promote(a)
	default:
		a.state = orphan
		j.repair(true)
	}
	j.finish()
}

// refusal is the code of a worker's error; "" if it is none.
func refusal(why failure) transport.ErrorCode {
	if remote := (*transport.RemoteError)(nil); errors.As(why.err, &remote) {
		return remote.Code
	}
	return ""
}

// unanswered notes that an attempt may never have a result: its worker is lost or silent. It still counts if it comes before others have
// taken the items.
func (j *job) unanswered(a *attempt, why failure) {
	j.blame(a, why)
	j.abandon(a)
}

// abandon no longer counts on an attempt.
func (j *job) abandon(a *attempt) {
	switch {
	case a.rival != nil:
		j.dropHedges(a.rival)
	case len(a.hedges) > 0:
		j.forget(a)
		j.promote(a)
	default:
		a.suspect = true
	}
}

// blame notes why a worker is not waited for.
func (j *job) blame(a *attempt, why failure) {
	j.troubled = true
	j.causes[a.worker] = why
	b := &j.bars[a.worker]
	b.step = min(max(2*b.step, firstBar), longBar)
	b.until = j.passed + b.step
	if !why.ours() {
		j.want(actFailed, a)
	}
}

// look takes another view of the cluster.
func (j *job) look(v *view) {
	if j.outcome != going {
		return
	}
	for i, why := range j.view.why {
		if why != nil && v.why[i] == nil && i < len(j.bars) {
			j.bars[i] = bar{} // it is back
		}
	}
	j.view = v
	if layer := v.owners.layers[j.call.Layer]; layer != nil && len(layer.first) == len(j.layer.first) {
		j.layer = layer
	}
	j.grow(len(j.roster.ids))
	j.know()
	for i := 0; i < len(j.attempts); i++ {
		if a := j.attempts[i]; a.state == waiting && !a.suspect && v.why[a.worker] != nil {
			j.unanswered(a, failure{v.why[a.worker].Error(), v.why[a.worker]})
		}
	}
	j.repair(true)
	j.finish()
}

// elapsed takes passing time.
func (j *job) elapsed(passed time.Duration) {
	if j.outcome != going {
		return
	}
	j.passed += passed
	if len(j.uncovered) > 0 {
		j.stats.Waited += passed
	}
	var longest *attempt
	for i := 0; i < len(j.attempts); i++ {
		a := j.attempts[i]
		if a.state != waiting {
			continue
		}
		a.age += passed
		a.quiet += passed
		if a.quiet >= j.limits.silence && !a.suspect {
			j.unanswered(a, failure{fmt.Sprintf("no sign of life for %s", j.limits.silence), nil})
		}
		if a.state == waiting && (longest == nil || a.quiet > longest.quiet) {
			longest = a
		}
	}
	j.hedge()
	if j.troubled || len(j.uncovered) > 0 {
		j.repair(false)
	}
	if j.outcome == going && j.passed >= j.limits.total && longest != nil {
		j.troubled, j.causes[longest.worker] = true, failure{fmt.Sprintf("still computing after %s", j.limits.total), nil}
		j.fail(j.workerError(longest.worker))
	}
	j.finish()
}

// next is how soon the job has to see passing time, if that is sooner than by the usual tick; 0: it isn't.
func (j *job) next() time.Duration {
	next := time.Duration(-1)
	soon := func(d time.Duration) {
		if next < 0 || d < next {
			next = max(d, time.Millisecond)
		}
	}
	for _, a := range j.attempts {
		if a.state == waiting && a.hedgeAfter > 0 {
			soon(a.hedgeAfter - a.age)
		}
	}
	if len(j.uncovered) > 0 {
		for i := range j.bars {
			if left := j.bars[i].until - j.passed; left > 0 {
				soon(left)
			}
		}
	}
	return max(next, 0)
}
