package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// Members is what dispatch needs to know of the cluster.
type Members interface {
	// Plan is the present placement, nil before the first. A plan never changes; a new placement is another plan.
	Plan() *placement.Plan
	// Term is the term that work is sent with.
	Term() uint64
	// Lost says why a worker can't be used at present, nil if it can.
	Lost(worker string) error
	// Unreachable notes that nobody listens to a worker's subject any more.
	Unreachable(worker string)
	// Changed is closed at the next change of the plan, or of what Lost says of a worker of it.
	Changed() <-chan struct{}
	// Uncovered notes that work waits for these expert parts of a layer, which no usable worker of the plan owns. It must return soon and not
	// keep parts.
	Uncovered(layer int, parts []uint32)
	// Computed notes that these expert parts (expert·parts+part) of a layer are in memory now.
	Computed(layer int, parts []uint32)
}

// Options configure a Dispatcher.
type Options struct {
	Requester *transport.Requester
	Members   Members
	// Parts of each expert.
	Parts int
	// Snapshot gives the residency for the budget.
	Snapshot func() engine.Residency
	// Silence is how long a worker may give no sign of life before the request ends; default transport.SilenceLimit.
	Silence time.Duration
	// Total is how long a request may take even if all workers say that they work; default 10 minutes.
	Total time.Duration
	// Observe is told each answer's latency, for histograms; may be nil.
	Observe func(worker string, latency time.Duration)
}

func (o *Options) validate() error {
	if o.Silence == 0 {
		o.Silence = transport.SilenceLimit
	}
	if o.Total == 0 {
		o.Total = 10 * time.Minute
	}
	switch {
	case o.Requester == nil || o.Members == nil || o.Snapshot == nil:
		return errors.New("dispatch: Requester, Members and Snapshot are needed")
	case o.Parts < 1:
		return fmt.Errorf("dispatch: %d parts; at least 1", o.Parts)
	case o.Silence < 0 || o.Total < 0:
		return fmt.Errorf("dispatch: deadlines of %s and %s; both must be above 0", o.Silence, o.Total)
	}
	return nil
}

// Dispatcher computes routed experts on workers: it implements engine.Experts. One call runs at a time.
type Dispatcher struct {
	o        Options
	counters counters
	interval time.Duration
	ticker   *time.Ticker

	turn     chan struct{} // has room for one: the call in progress, to which all below belongs
	exchange *transport.Exchange
	owners   *owners
	split    splitter
	wait     waiter
	request  uint64
	sent     []time.Time // per active worker
	gone     []time.Time // per active worker: since when nobody listens; zero: somebody does
	probed   time.Duration
	failedBy []int32 // per row: the worker (number) whose error is in RowErr
}

// goneGrace is how long a worker without listeners may be waited for: whoever started it knows a moment later how it ended.
const goneGrace = time.Second

// tickInterval is how often passing time is looked at.
const tickInterval = 250 * time.Millisecond

// probeInterval is how often a quiet worker is probed.
const probeInterval = time.Second

// maxWorkers is how many replies an Exchange has room for; more only delays them.
const maxWorkers = 256

// New checks the options.
func New(o Options) (*Dispatcher, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	d := &Dispatcher{o: o, turn: make(chan struct{}, 1), exchange: o.Requester.NewExchange(maxWorkers), interval: min(tickInterval, max(o.Silence/4, time.Millisecond))}
	d.counters.workers = map[string]*WorkerCounters{}
	d.wait = waiter{silence: o.Silence, total: o.Total}
	d.ticker = time.NewTicker(d.interval)
	return d, nil
}

// Close stops the clock. The Requester is its owner's to close.
func (d *Dispatcher) Close() { d.ticker.Stop() }

// Snapshot implements engine.Experts.
func (d *Dispatcher) Snapshot() engine.Residency { return d.o.Snapshot() }

// Compute implements engine.Experts: it sends each worker that owns chosen experts the rows that need them and adds the sums
// that come back. A worker that is gone, refuses, or is silent for too long gives a *WorkerError, and ctx' end gives its cause;
// call.Sum is then undefined. RowErr gets kernels.ErrNotFinite or kernels.ErrOverflow, wrapped with layer and worker.
func (d *Dispatcher) Compute(ctx context.Context, call *engine.ExpertCall) (engine.ExpertStats, error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return engine.ExpertStats{}, context.Cause(ctx)
	}
	if err := d.prepare(call); err != nil {
		return engine.ExpertStats{}, err
	}
	if len(d.split.active) == 0 {
		return engine.ExpertStats{}, nil
	}
	d.request = d.exchange.NextRequest()
	defer d.exchange.Forget(d.request)
	stats, err := d.sendAndGather(ctx, call)
	if w := (*WorkerError)(nil); errors.As(err, &w) {
		d.counters.failure(w.Worker)
	}
	return stats, err
}

// prepare splits the call by the present placement.
func (d *Dispatcher) prepare(call *engine.ExpertCall) error {
	rows, hidden := call.Rows.Rows, call.Rows.Columns
	if len(call.Choices) != rows || len(call.RowErr) != rows || len(call.Sum) != rows*hidden {
		return fmt.Errorf("layer %d: %d rows of %d columns, but %d choices, %d row errors and %d sums", call.Layer, rows, hidden,
			len(call.Choices), len(call.RowErr), len(call.Sum))
	}
	plan := d.o.Members.Plan()
	if plan == nil {
		return errors.New("there is no placement yet: the workers are not ready")
	}
	if d.owners == nil || d.owners.plan != plan {
		owners, err := newOwners(plan)
		if err != nil {
			return err
		}
		d.owners = owners
	}
	d.failedBy = d.failedBy[:0]
	return d.split.split(d.owners, d.o.Parts, call)
}

func (d *Dispatcher) sendAndGather(ctx context.Context, call *engine.ExpertCall) (stats engine.ExpertStats, err error) {
	active := d.split.active
	d.wait.start(len(active))
	d.sent, d.gone, d.probed = d.sent[:0], d.gone[:0], 0
	term := d.o.Members.Term()
	for _, number := range active {
		id, w := d.owners.workers[number], &d.split.shares[number].work
		w.Epoch, w.Term, w.Request, w.Attempt = d.owners.plan.Epoch, term, d.request, 1
		err := d.o.Members.Lost(id)
		if err == nil {
			err = d.exchange.Send(id, w)
		}
		if err != nil {
			return stats, &WorkerError{id, call.Layer, err.Error(), err}
		}
		d.sent, d.gone = append(d.sent, time.Now()), append(d.gone, time.Time{})
	}
	for last := d.sent[0]; ; {
		reply, ok := d.exchange.Receive(ctx, d.ticker.C)
		var v verdict
		switch {
		case ok:
			v = d.take(call, &reply, &stats)
		case ctx.Err() != nil:
			return stats, context.Cause(ctx)
		default:
			// A process that was stopped for a while doesn't blame its workers for that.
			now := time.Now()
			v = d.tick(min(now.Sub(last), 2*d.interval))
			last = now
		}
		if v.fail {
			return stats, &WorkerError{d.owners.workers[active[v.worker]], call.Layer, v.reason, v.err}
		}
		if v.done {
			return stats, nil
		}
	}
}

// tick looks at passed time and at what is known of the workers that owe a result.
func (d *Dispatcher) tick(passed time.Duration) verdict {
	for i, number := range d.split.active {
		if d.wait.states[i].answered {
			continue
		}
		id := d.owners.workers[number]
		err := d.o.Members.Lost(id)
		if err == nil && !d.gone[i].IsZero() && time.Since(d.gone[i]) >= goneGrace {
			d.o.Members.Unreachable(id)
			err = transport.ErrNoWorker
		}
		if err != nil {
			return d.wait.step(event{kind: failed, worker: i, reason: err.Error(), err: err})
		}
	}
	d.probe(passed)
	return d.wait.step(event{kind: elapsed, passed: passed})
}

// probe asks NATS once in a while whether those that are quiet are still there: a killed process is noticed before its silence is.
func (d *Dispatcher) probe(passed time.Duration) {
	if d.probed += passed; d.probed < probeInterval {
		return
	}
	d.probed = 0
	for i, number := range d.split.active {
		if s := &d.wait.states[i]; !s.answered && s.quiet >= probeInterval/2 {
			_ = d.exchange.Probe(d.owners.workers[number]) // without a connection silence decides
		}
	}
}

// take deals with one reply.
func (d *Dispatcher) take(call *engine.ExpertCall, reply *transport.Reply, stats *engine.ExpertStats) verdict {
	if reply.Result != nil {
		defer d.exchange.Recycle(reply.Result)
	}
	i := d.sender(reply)
	if i < 0 {
		return verdict{}
	}
	h := &d.split.shares[d.split.active[i]]
	switch r := reply.Result; {
	case errors.Is(reply.Err, transport.ErrNoWorker):
		if d.gone[i].IsZero() {
			d.gone[i] = time.Now()
		}
		return verdict{}
	case reply.Err != nil:
		return d.wait.step(event{kind: failed, worker: i, reason: reason(reply.Err), err: reply.Err})
	case r == nil:
		return d.wait.step(event{kind: progressed, worker: i})
	case r.Rows != h.work.Rows || r.Hidden != h.work.Hidden || !slices.Equal(r.Parts, h.distinct):
		return d.wait.step(event{kind: failed, worker: i, reason: fmt.Sprintf(
			"its result is of %d rows of %d columns and %d expert parts, the work was of %d, %d and %d",
			r.Rows, r.Hidden, len(r.Parts), h.work.Rows, h.work.Hidden, len(h.distinct))})
	}
	v := d.wait.step(event{kind: answered, worker: i})
	if v.add {
		d.add(call, h, reply.Result, i, stats)
	}
	return v
}

// sender is the place of a reply's worker among the active ones; -1 if the reply isn't one of this request.
func (d *Dispatcher) sender(reply *transport.Reply) int {
	if reply.Request != d.request {
		return -1
	}
	for i, number := range d.split.active {
		if d.owners.workers[number] == reply.Worker {
			return i
		}
	}
	return -1
}

// reason is an error without the worker's name, which WorkerError has.
func reason(err error) string {
	if r := (*transport.RemoteError)(nil); errors.As(err, &r) {
		return fmt.Sprintf("%s: %s", r.Code, r.Message)
	}
	return err.Error()
}

// add adds a worker's sums to the call's.
func (d *Dispatcher) add(call *engine.ExpertCall, h *share, r *transport.Result, i int, stats *engine.ExpertStats) {
	hidden := r.Hidden
	for k, row := range h.rows {
		if len(r.RowErrors) > 0 && r.RowErrors[k] != transport.RowOK {
			d.rowError(call, int(row), h.worker, r.RowErrors[k])
			continue
		}
		sum := call.Sum[int(row)*hidden : (int(row)+1)*hidden]
		part := r.Sum[k*hidden : (k+1)*hidden][:len(sum)]
		for c := range sum {
			sum[c] += part[c]
		}
	}
	id, latency := d.owners.workers[h.worker], time.Since(d.sent[i])
	hits, misses := d.counters.result(id, r, latency)
	stats.Hits += hits
	stats.Misses += misses
	stats.BytesRead += r.BytesRead
	d.o.Members.Computed(call.Layer, r.Parts)
	if d.o.Observe != nil {
		d.o.Observe(id, latency)
	}
}

// rowError sets a row's error. Of several workers' the lowest one's stays, whatever the order of replies.
func (d *Dispatcher) rowError(call *engine.ExpertCall, row, worker int, code uint8) {
	if len(d.failedBy) == 0 {
		for range call.RowErr {
			d.failedBy = append(d.failedBy, -1)
		}
	}
	if by := d.failedBy[row]; by >= 0 && int(by) <= worker {
		return
	}
	d.failedBy[row] = int32(worker)
	cause := kernels.ErrNotFinite
	if code == transport.RowOverflow {
		cause = kernels.ErrOverflow
	}
	call.RowErr[row] = fmt.Errorf("layer %d, worker %s: %w", call.Layer, d.owners.workers[worker], cause)
}
