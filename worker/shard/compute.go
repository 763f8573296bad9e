package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/transport"
)

// Compute answers a work: for each row the sum over its expert parts of weight · down(silu(gate(x)) · up(x)) in fixed point
// (DESIGN §2). A row whose intermediate is not finite, or whose contribution is out of range, gets a row error and zeros; the
// others are untouched by it. r's memory is reused. Errors are *transport.RemoteError for work that doesn't fit; a damaged slot
// is rebuilt from the checkpoint and the work done again, once.
func (s *Shards) Compute(ctx context.Context, w *transport.Work, r *transport.Result) error {
	asked := time.Now()
	h := s.h
	h.works.Add(1)
	h.computing.Lock()
	defer h.computing.Unlock()
	if s.retired {
		return &transport.RemoteError{Code: transport.CodeWrongEpoch, Message: "the placement has just been replaced"}
	}
	started := time.Now()
	defer h.o.Team.Rest()
	l, err := s.check(w)
	if err != nil {
		return err
	}
	c := &h.scratch
	c.group(w, len(l.owned))
	*r = transport.Result{
		Request: w.Request, Attempt: w.Attempt, Rows: w.Rows, Hidden: w.Hidden,
		Sum: resize(r.Sum, w.Rows*w.Hidden), RowErrors: r.RowErrors[:0],
		Parts: append(r.Parts[:0], c.parts...), Hits: resize(r.Hits, (len(c.parts)+7)/8), Arrived: r.Arrived[:0], Evicted: r.Evicted[:0],
	}
	c.begin(w)
	h.prefetcher.begin(w, started)
	r.GhostBytes = -1
	if h.ledger != nil {
		c.accounted = true
		r.MissBytes, r.GhostBytes = h.ledger.request(l, w)
	}
	err = s.attempt(ctx, l, w, r)
	if errors.Is(err, errDamaged) {
		c.repeat()
		err = s.attempt(ctx, l, w, r)
	}
	if err != nil {
		if h.ledger != nil {
			h.ledger.abandon(l)
		}
		return fmt.Errorf("layer %d: %w", w.Layer, err)
	}
	if h.ledger != nil {
		h.ledger.evictLast()
	}
	s.finish(l, w, r)
	r.QueueTime = started.Sub(asked).Nanoseconds()
	r.ComputeTime = time.Since(started).Nanoseconds()
	h.took(l, r, len(w.Parts))
	return nil
}

// errDamaged says that a slot was found damaged under the kernels and has been rebuilt: the attempt has to be repeated.
var errDamaged = errors.New("expert part damaged")

// attempt computes all parts of the request: those in memory while the others are read, then these as they arrive.
func (s *Shards) attempt(ctx context.Context, l *layer, w *transport.Work, r *transport.Result) error {
	c := &s.h.scratch
	clear(r.Sum)
	c.rowErr = resize(c.rowErr, w.Rows)
	for i := range c.rowErr {
		c.rowErr[i].code.Store(uint32(transport.RowOK))
	}
	for {
		if err := s.look(l); err != nil {
			return err
		}
		reads := c.toRead()
		if len(reads) == 0 {
			s.h.prefetcher.release()
			return s.computeHere(ctx, l, r.Sum, nil)
		}
		damaged, err := s.computeAsRead(ctx, l, r.Sum, reads)
		if err != nil || !damaged {
			return err
		}
	}
}

// computeAsRead has parts read and computes meanwhile what is here, then each as it arrives. Nothing is read any more when it returns.
// damaged: some were found damaged and the rest has to be done again.
func (s *Shards) computeAsRead(ctx context.Context, l *layer, sum []int64, reads []read) (damaged bool, err error) {
	c := &s.h.scratch
	c.missing = true
	d := s.h.demand(l, reads)
	defer d.stop()
	if err := s.computeHere(ctx, l, sum, d); err != nil {
		return false, err
	}
	for left := len(reads); left > 0; {
		s.h.o.Team.Rest()
		var a arrival
		select {
		case a = <-d.arrived:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		for more := true; more; {
			left--
			c.arrive(a)
			damaged = damaged || a.err != nil
			select {
			case a = <-d.arrived:
			default:
				more = false
			}
		}
		if damaged {
			c.takeRest(d)
			return true, nil
		}
		if err := s.computeHere(ctx, l, sum, d); err != nil {
			return false, err
		}
	}
	return false, nil
}

// computeHere computes the parts that are here. d, if not nil, is told of each that is done.
func (s *Shards) computeHere(ctx context.Context, l *layer, sum []int64, d *demand) error {
	c := &s.h.scratch
	c.cut(s.h.limits.taskRows)
	for tasks := c.tasks; len(tasks) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := s.cutWave(l, tasks)
		if err != nil {
			return err
		}
		if err := s.h.computeWave(ctx, tasks[:n], &c.x, sum); err != nil {
			var fault *team.FaultError
			if errors.As(err, &fault) {
				d.stop()
				err = s.mend(l, err)
			}
			return err
		}
		c.computed(tasks[:n], tasks[n:], d)
		tasks = tasks[n:]
	}
	return nil
}

// computeWave adds the contributions of some tasks to sum [rows, hidden]. It ends soon after ctx does: a wave may take seconds.
func (h *Holder) computeWave(ctx context.Context, tasks []task, x *kernels.Activations, sum []int64) error {
	c, threads := &h.scratch, h.o.Team.Threads()
	c.threads = slices.Grow(c.threads, max(0, threads-len(c.threads)))[:threads]
	for i := range c.threads {
		c.threads[i].task = -1
	}
	c.current = wave{ctx: ctx, tasks: tasks, x: x, sum: sum, width: jobWidth(blocksOf(x.Columns), threads)}
	c.cutGate(tasks, threads)
	if err := h.o.Team.Run(len(c.gateJobs), h.gateJob); err != nil {
		return err
	}
	return h.o.Team.Run((x.Columns+c.current.width-1)/c.current.width, h.downJob)
}

// wave is what the jobs in progress share.
type wave struct {
	ctx   context.Context
	tasks []task
	x     *kernels.Activations
	sum   []int64
	width int // outputs of a down job
}

// computeGate is a job of the gate and up products.
func (h *Holder) computeGate(i, thread int) error {
	c, set := &h.scratch, h.o.Kernels
	w, j, mine := &c.current, c.gateJobs[i], &c.threads[thread]
	if err := w.ctx.Err(); err != nil {
		return err
	}
	t := &w.tasks[j.task]
	if mine.task != j.task {
		set.Gather(&mine.gathered, t.expert.Gate.Format, w.x, t.rows)
		mine.task = j.task
	}
	c.gateAndUp(set, t, j.from, j.to, thread)
	if t.remaining.last() {
		c.prepare(set, t)
	}
	return nil
}

// computeDown is a job of the down products: a range of outputs of all tasks, so that no two threads add to the same sums.
func (h *Holder) computeDown(i, thread int) error {
	c := &h.scratch
	w := &c.current
	if err := w.ctx.Err(); err != nil {
		return err
	}
	from, to := i*w.width, min(w.x.Columns, (i+1)*w.width)
	for t := range w.tasks {
		c.down(h.o.Kernels, &w.tasks[t], w.sum, w.x.Columns, from, to, thread)
	}
	return nil
}

// product gives a thread's room for products [rows, width].
func (c *scratch) product(thread, rows, width int) []float32 {
	p := &c.threads[thread].product
	*p = resize(*p, rows*width)
	return *p
}

// gateAndUp computes silu(gate)·up of a task's rows in intermediate columns [from, to).
func (c *scratch) gateAndUp(set *kernels.Set, t *task, from, to, thread int) {
	g := &c.threads[thread].gathered
	columns, width := t.expert.Gate.Outputs, to-from
	up := c.product(thread, len(t.rows), width)
	set.MultiplyGathered(t.gate, columns, t.expert.Gate, g, from, to)
	set.MultiplyGathered(up, width, outputs(t.expert.Up, from, to), g, 0, width)
	for i := range t.rows {
		gate := t.gate[i*columns+from : i*columns+to]
		set.SiLUMultiply(gate, gate, up[i*width:(i+1)*width])
	}
}

// prepare makes a task's intermediate rows ready for the down product.
func (c *scratch) prepare(set *kernels.Set, t *task) {
	columns := t.expert.Gate.Outputs
	for i, row := range t.rows {
		if err := set.Prepare(&t.intermediate, i, t.gate[i*columns:(i+1)*columns]); err != nil {
			c.rowErr[row].set(transport.RowNotFinite)
		}
	}
	set.Gather(&t.gathered, t.expert.Down.Format, &t.intermediate, t.identity)
}

// down adds a task's contributions to columns [from, to) of the sums.
func (c *scratch) down(set *kernels.Set, t *task, sum []int64, hidden, from, to, thread int) {
	width := to - from
	y := c.product(thread, len(t.rows), width)
	set.MultiplyGathered(y, width, outputs(t.expert.Down, from, to), &t.gathered, 0, width)
	for i, row := range t.rows {
		at := int(row) * hidden
		if err := set.Accumulate(sum[at+from:at+to], y[i*width:(i+1)*width], t.weights[i]); err != nil {
			c.rowErr[row].set(transport.RowOverflow)
		}
	}
}

// finish stores row errors, hits and counts.
func (s *Shards) finish(l *layer, w *transport.Work, r *transport.Result) {
	c := &s.h.scratch
	for i := range c.rowErr {
		code := uint8(c.rowErr[i].code.Load())
		if code == transport.RowOK {
			continue
		}
		if len(r.RowErrors) == 0 {
			r.RowErrors = resize(r.RowErrors, w.Rows)
			clear(r.RowErrors)
		}
		r.RowErrors[i] = code
		clear(r.Sum[i*w.Hidden : (i+1)*w.Hidden])
	}
	if len(r.RowErrors) == 0 {
		r.RowErrors = nil
	}
	clear(r.Hits)
	missed := int64(0)
	for i, hit := range c.hit {
		if hit {
			r.Hits[i/8] |= 1 << (i % 8)
		} else {
			missed += pagesOf(s.plan.Shapes[int(c.parts[i])%len(l.arenas)].Bytes())
		}
	}
	if s.h.ledger != nil {
		s.h.ledger.report(l, r)
	} else {
		r.MissBytes = missed
	}
	s.h.measure(r)
	r.Number = s.h.results.Add(1) // after the ledger's report: what that misses, a beat with this number must not
}
