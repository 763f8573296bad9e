package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// run drives the job of a call until it is over. The job's error is what run gives.
func (d *Dispatcher) run(ctx context.Context, call *engine.ExpertCall, stats *engine.ExpertStats) error {
	j := &d.job
	if err := j.start(call, d.view); err != nil {
		return err
	}
	d.hint(call)
	d.last, d.probed, d.said = time.Time{}, 0, false
	for d.perform(stats); j.outcome == going; d.perform(stats) {
		reply, ok := d.exchange.ReceiveOr(ctx, d.clock(), d.changed)
		switch {
		case ok:
			d.take(&reply)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			d.pass()
			d.probe()
			d.tell()
		}
	}
	return j.err
}

// clock is what ends a wait for replies: the usual tick, or what the job has to see before.
func (d *Dispatcher) clock() <-chan time.Time {
	next := d.job.next()
	if next == 0 || next >= d.interval {
		return d.ticker.C
	}
	d.timer.Reset(max(next-time.Since(d.last), time.Millisecond)) // the job has not seen the time since last
	return d.timer.C
}

// pass looks at the cluster and at the time of one moment. The cluster comes first: time decides by what is known of the workers, and a
// worker whose end is waited for no longer has been told of as unreachable.
func (d *Dispatcher) pass() {
	now := time.Now()
	d.look(now)
	d.elapse(now)
}

// elapse lets the job see the time that has passed. A process that was stopped for a while doesn't blame its workers for that.
func (d *Dispatcher) elapse(now time.Time) {
	if d.last.IsZero() {
		d.last = now
	}
	passed := min(now.Sub(d.last), 2*d.interval)
	d.last = now
	d.probed += passed
	d.job.elapsed(passed)
}

// look gives the job another view of the cluster if something has changed.
func (d *Dispatcher) look(now time.Time) {
	before := d.view
	if d.see(now) != nil {
		d.view = before // there is nothing better
	}
	if d.view != before {
		d.job.look(d.view)
	}
}

// probe asks NATS once in a while whether those that are quiet are still there: a killed process is noticed before its silence is.
func (d *Dispatcher) probe() {
	if d.probed < probeInterval {
		return
	}
	d.probed = 0
	for _, a := range d.job.attempts {
		if a.state == waiting && a.quiet >= probeInterval/2 {
			_ = d.exchange.Probe(d.roster.ids[a.worker]) // without a connection silence decides
		}
	}
}

// tell says once that a call waits, unless that is over soon.
func (d *Dispatcher) tell() {
	j := &d.job
	if d.said || len(j.uncovered) == 0 || j.stats.Waited < time.Second {
		return
	}
	d.said = true
	d.o.Log("warning: %s: waiting for one, at most %s (--missing-deadline)", j.missingError().state(), d.o.Missing)
}

// perform does what the job wants done, and what it wants because of that.
func (d *Dispatcher) perform(stats *engine.ExpertStats) {
	j := &d.job
	for i := 0; i < len(j.out); i++ {
		switch a := j.out[i].attempt; j.out[i].kind {
		case actSend:
			if j.outcome == going {
				d.send(a)
			}
		case actAdd:
			d.add(a, stats)
		case actForget:
			d.forget(a)
		case actFailed, actLate:
			d.counters.failure(d.roster.ids[a.worker], j.out[i].kind == actLate)
			d.health[a.worker].avoid(time.Now())
			d.stale = true
		case actUncovered:
			d.o.Members.Uncovered(j.call.Layer, j.uncovered)
		}
	}
	j.out = j.out[:0]
}

// send sends an attempt's work.
func (d *Dispatcher) send(a *attempt) {
	a.request = d.exchange.NextRequest()
	a.work.Request = a.request
	a.sent = time.Now()
	if d.last.IsZero() {
		d.last = a.sent
	}
	a.filled(d.job.call.Filled, d.o.Parts)
	d.cuts.tell(a.worker, &a.work)
	if err := d.exchange.Send(d.roster.ids[a.worker], &a.work); err != nil {
		d.cuts.untold(a.worker, &a.work)
		d.job.refused(a, failure{err.Error(), &connectionError{err}})
	}
}

// forget gives an attempt up.
func (d *Dispatcher) forget(a *attempt) {
	d.exchange.Forget(a.request)
	if a.result != nil {
		d.exchange.Recycle(a.result)
		a.result = nil
	}
}

// leave gives up all that a call has not waited for.
func (d *Dispatcher) leave() {
	for _, a := range d.job.attempts {
		if a.state == waiting || a.state == held {
			d.forget(a)
			a.state = over
		}
	}
}

// take deals with one reply.
func (d *Dispatcher) take(reply *transport.Reply) {
	a := d.sender(reply)
	if a == nil {
		if reply.Result != nil {
			d.exchange.Recycle(reply.Result)
		}
		return
	}
	if reply.Err != nil {
		d.pass() // so that the job knows when it was; and it may be about another plan
	}
	switch r := reply.Result; {
	case errors.Is(reply.Err, transport.ErrNoWorker):
		if h := &d.health[a.worker]; h.gone.IsZero() {
			h.gone = d.last
		}
		d.stale = true
		d.job.refused(a, failure{reply.Err.Error(), reply.Err})
		d.look(d.last)
	case errors.Is(reply.Err, transport.ErrConnectionLost):
		d.job.refused(a, failure{reply.Err.Error(), &connectionError{reply.Err}})
	case reply.Err != nil:
		d.job.refused(a, failure{reason(reply.Err), reply.Err})
	case r == nil:
		d.job.progressed(a)
	case r.Rows != a.work.Rows || r.Hidden != a.work.Hidden || !slices.Equal(r.Parts, a.distinct):
		d.job.refused(a, failure{fmt.Sprintf("its result is of %d rows of %d columns and %d expert parts, the work was of %d, %d and %d",
			r.Rows, r.Hidden, len(r.Parts), a.work.Rows, a.work.Hidden, len(a.distinct)), nil})
		d.exchange.Recycle(r)
	default:
		if !d.job.answered(a, r) {
			d.exchange.Recycle(r)
		}
	}
}

// sender is the attempt that a reply is for; nil if it is none that is waited for.
func (d *Dispatcher) sender(reply *transport.Reply) *attempt {
	for _, a := range d.job.attempts {
		if a.request == reply.Request && a.state == waiting && d.roster.ids[a.worker] == reply.Worker {
			return a
		}
	}
	return nil
}

// reason is an error without the worker's name, which WorkerError has.
func reason(err error) string {
	if r := (*transport.RemoteError)(nil); errors.As(err, &r) {
		return fmt.Sprintf("%s: %s", r.Code, r.Message)
	}
	return err.Error()
}

// add adds an attempt's sums to the call's.
func (d *Dispatcher) add(a *attempt, stats *engine.ExpertStats) {
	call, r := d.job.call, a.result
	hidden := r.Hidden
	for k, row := range a.rows {
		if len(r.RowErrors) > 0 && r.RowErrors[k] != transport.RowOK {
			d.rowError(call, int(row), a.worker, r.RowErrors[k])
			continue
		}
		addRow(call, int(row), r.Sum[k*hidden:(k+1)*hidden])
	}
	id, latency := d.roster.ids[a.worker], time.Since(a.sent)
	hits, misses := d.counters.result(id, r, latency)
	stats.Hits += hits
	stats.Misses += misses
	stats.BytesRead += r.BytesRead
	stats.MissBytes += r.MissBytes
	stats.MajorFaults += r.MajorFaults
	if r.GhostBytes >= 0 {
		stats.GhostBytes += r.GhostBytes
	} else {
		stats.Unledgered++
	}
	d.paces[a.worker].observe(r.Rows, latency)
	d.health[a.worker].step = 0
	d.o.Members.Computed(id, call.Layer, r)
	if d.o.Observe != nil {
		d.o.Observe(Answer{id, call.Layer, r.Rows, a.sent, latency, time.Duration(r.QueueTime), time.Duration(r.ComputeTime)})
	}
	d.exchange.Recycle(r)
	a.result = nil
}

// addRow adds a row of sums to the call's.
func addRow(call *engine.ExpertCall, row int, part []int64) {
	kernels.AddSums(call.Sum[row*len(part):][:len(part)], part)
}

// rowFailure is whose error a row has.
type rowFailure struct {
	worker int32
	code   uint8 // transport.RowOK: none
}

// rowError sets a row's error. It doesn't depend on who computes what: of several errors one that is not finite stays, and of equal ones
// that of the lowest id.
func (d *Dispatcher) rowError(call *engine.ExpertCall, row int, worker int32, code uint8) {
	if len(d.failedBy) == 0 {
		d.failedBy = append(d.failedBy, make([]rowFailure, len(call.RowErr))...)
	}
	id, by := d.roster.ids[worker], &d.failedBy[row]
	switch {
	case by.code == transport.RowOK, code < by.code, code == by.code && id < d.roster.ids[by.worker]:
	default:
		return
	}
	*by = rowFailure{worker, code}
	cause := kernels.ErrNotFinite
	if code == transport.RowOverflow {
		cause = kernels.ErrOverflow
	}
	call.RowErr[row] = fmt.Errorf("layer %d, worker %s: %w", call.Layer, id, cause)
}
