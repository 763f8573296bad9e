package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/placement"
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
	// Computed notes what a worker's answer for a layer says of its memory: what it has computed is there now, and what else has come and gone.
	// It must not keep the answer.
	Computed(worker string, layer int, r *transport.Result)
}

// Options configure a Dispatcher.
type Options struct {
	Requester *transport.Requester
	Members   Members
	// Parts of each expert.
	Parts int
	// Snapshot gives the residency for the budget.
	Snapshot func() engine.Residency
	// OnMissing is what is done when no usable worker holds an expert that was chosen.
	OnMissing OnMissing
	// Missing is how long such a worker is waited for with WaitMissing; default 30 s.
	Missing time.Duration
	// Normalize is the model's norm_topk_prob, for DropMissing.
	Normalize bool
	// Silence is how long a worker may give no sign of life before others do its work; default transport.SilenceLimit.
	Silence time.Duration
	// Total is how long a request may take even if all workers say that they work; default 10 minutes.
	Total time.Duration
	// HedgeFloor is the shortest time without an answer after which another worker is asked, too; default 50 ms.
	HedgeFloor time.Duration
	// Observe is told of each answer that counts, for histograms and traces; may be nil.
	Observe func(Answer)
	// Log is told what a person should know; may be nil.
	Log func(format string, args ...any)
}

// DefaultMissing is the default of Options.Missing.
const DefaultMissing = 30 * time.Second

func (o *Options) defaults() {
	if o.Silence == 0 {
		o.Silence = transport.SilenceLimit
	}
	if o.Total == 0 {
		o.Total = 10 * time.Minute
	}
	if o.Missing == 0 {
		o.Missing = DefaultMissing
	}
	if o.HedgeFloor == 0 {
		o.HedgeFloor = 50 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
}

// limits are a job's times.
func (o *Options) limits() limits {
	return limits{silence: o.Silence, total: o.Total, missing: o.Missing, grace: goneGrace, onMissing: o.OnMissing}
}

func (o *Options) validate() error {
	o.defaults()
	switch {
	case o.Requester == nil || o.Members == nil || o.Snapshot == nil:
		return errors.New("dispatch: Requester, Members and Snapshot are needed")
	case o.Parts < 1:
		return fmt.Errorf("dispatch: %d parts; at least 1", o.Parts)
	case o.Silence < 0 || o.Total < 0 || o.Missing < 0 || o.HedgeFloor < 0:
		return fmt.Errorf("dispatch: times of %s, %s, %s and %s; all must be above 0", o.Silence, o.Total, o.Missing, o.HedgeFloor)
	case int(o.OnMissing) >= len(onMissingNames):
		return fmt.Errorf("dispatch: OnMissing is %d", o.OnMissing)
	}
	return nil
}

// Dispatcher computes routed experts on workers: it implements engine.Experts. One call runs at a time.
type Dispatcher struct {
	o        Options
	counters counters
	interval time.Duration
	ticker   *time.Ticker
	timer    *time.Timer // for what has to be seen between two ticks

	turn     chan struct{} // has room for one: the call in progress, to which all below belongs
	exchange *transport.Exchange
	roster   roster
	paces    []pace   // by worker
	health   []health // by worker
	view     *view
	changed  <-chan struct{} // closed: view is out of date
	stale    bool            // view is out of date
	recheck  time.Time       // when view is out of date anyway; zero: never
	job      job
	hints    hints
	cuts     cuts
	last     time.Time // up to when the job has seen time pass
	probed   time.Duration

	said     bool         // that the call waits for experts
	failedBy []rowFailure // per row: who is in RowErr
	dropped  string       // what was said last of experts that are left out
}

// tickInterval is how often passing time is looked at.
const tickInterval = 250 * time.Millisecond

// probeInterval is how often a quiet worker is probed.
const probeInterval = 500 * time.Millisecond

// maxWorkers is how many replies an Exchange has room for; more only delays them.
const maxWorkers = 256

// New checks the options.
func New(o Options) (*Dispatcher, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	d := &Dispatcher{o: o, turn: make(chan struct{}, 1), exchange: o.Requester.NewExchange(maxWorkers),
		interval: min(tickInterval, max(o.Silence/4, time.Millisecond))}
	d.counters.workers = map[string]*WorkerCounters{}
	d.job.parts, d.job.roster, d.job.delay = o.Parts, &d.roster, d.delay
	d.job.limits = o.limits()
	d.ticker, d.timer = time.NewTicker(d.interval), time.NewTimer(time.Hour)
	return d, nil
}

// Close stops the clock. The Requester is its owner's to close.
func (d *Dispatcher) Close() {
	d.ticker.Stop()
	d.timer.Stop()
}

// Snapshot implements engine.Experts.
func (d *Dispatcher) Snapshot() engine.Residency { return d.o.Snapshot() }

// Compute implements engine.Experts: it sends each worker that owns chosen experts the rows that need them and adds the sums
// that come back. What a worker doesn't answer, others that own the same experts compute; the sums don't depend on it. A
// *MissingError says that there was none (Options.OnMissing), a *WorkerError that a worker has taken too long or serves another leader, and
// ctx' end gives its cause; call.Sum is then undefined. With DropMissing, experts that have no worker are taken out of call.Choices. RowErr
// gets kernels.ErrNotFinite or kernels.ErrOverflow, wrapped with layer and worker.
func (d *Dispatcher) Compute(ctx context.Context, call *engine.ExpertCall) (engine.ExpertStats, error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return engine.ExpertStats{}, context.Cause(ctx)
	}
	rows, hidden := call.Rows.Rows, call.Rows.Columns
	if len(call.Choices) != rows || len(call.RowErr) != rows || len(call.Sum) != rows*hidden {
		return engine.ExpertStats{}, fmt.Errorf("layer %d: %d rows of %d columns, but %d choices, %d row errors and %d sums", call.Layer, rows,
			hidden, len(call.Choices), len(call.RowErr), len(call.Sum))
	}
	d.failedBy = d.failedBy[:0]
	if err := d.see(time.Now()); err != nil {
		return engine.ExpertStats{}, err
	}
	if layer := d.view.owners.layers[call.Layer]; layer != nil {
		d.cuts.add(call, layer, d.o.Parts, d.view)
	}
	var stats engine.ExpertStats
	for {
		err := d.run(ctx, call, &stats)
		d.leave()
		stats.Add(d.job.stats)
		if err != nil || d.job.outcome != lacks {
			return stats, err
		}
		d.drop(call, &stats)
	}
}

// see takes a new view of the cluster if something has changed.
func (d *Dispatcher) see(now time.Time) error {
	select {
	case <-d.changed:
	default:
		if d.view != nil && !d.stale && (d.recheck.IsZero() || now.Before(d.recheck)) {
			return nil
		}
	}
	d.changed = d.o.Members.Changed() // before all that it is about
	plan := d.o.Members.Plan()
	if plan == nil {
		d.view = nil
		return errors.New("there is no placement yet: the workers are not ready")
	}
	var known *owners
	if d.view != nil && d.view.owners.plan == plan {
		known = d.view.owners
	} else {
		var err error
		if known, err = newOwners(&d.roster, plan); err != nil {
			return err
		}
	}
	d.view = d.newView(known, now)
	return nil
}

// newView asks what is known of each worker.
func (d *Dispatcher) newView(known *owners, now time.Time) *view {
	n := len(d.roster.ids)
	d.paces, d.health = append(d.paces, make([]pace, n-len(d.paces))...), append(d.health, make([]health, n-len(d.health))...)
	v := &view{owners: known, term: d.o.Members.Term(), why: make([]error, n), avoid: make([]bool, n), plain: true}
	d.stale, d.recheck = false, time.Time{}
	again := func(at time.Time) {
		if d.recheck.IsZero() || at.Before(d.recheck) {
			d.recheck = at
		}
	}
	for i, id := range d.roster.ids {
		h := &d.health[i]
		v.why[i] = d.o.Members.Lost(id)
		if !h.gone.IsZero() {
			switch left := goneGrace - now.Sub(h.gone); {
			case v.why[i] != nil:
				h.gone = time.Time{}
			case left <= 0:
				h.gone = time.Time{}
				d.o.Members.Unreachable(id)
				v.why[i] = d.o.Members.Lost(id)
			default:
				v.why[i] = transport.ErrNoWorker
				again(now.Add(left))
			}
		}
		if v.avoid[i] = now.Before(h.until); v.avoid[i] {
			again(h.until)
		}
		if _, planned := known.plan.Owned[id]; planned && (v.why[i] != nil || v.avoid[i]) {
			v.plain = false
		}
	}
	return v
}

// delay is after how long a worker's share of some rows is late; 0: not known yet.
func (d *Dispatcher) delay(worker int32, rows int) time.Duration {
	return d.paces[worker].delay(rows, d.o.HedgeFloor)
}
