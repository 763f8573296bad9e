package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moepool/moepool/transport"
)

// How long a worker waits.
const (
	residencyInterval = 10 * time.Second
	// shutDownTimeout is how long running work may take when the worker is told to end.
	shutDownTimeout = 10 * time.Second
	// orphanTimeout is half of how long a worker may take to end after its parent.
	orphanTimeout = 400 * time.Millisecond
)

// RefusedError is the error of Run when the coordinator can't use the worker.
type RefusedError struct{ Worker, Reason string }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("worker %s was refused by the coordinator: %s", e.Worker, e.Reason)
}

// Run is the worker's life: it returns nil after Drain, at the end of Options.Leave's draining, after the end of ctx or of its parent (at
// once), and an error when it can't start or was refused (*RefusedError).
func Run(ctx context.Context, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	parent, stopWatching := watchParent(o.ParentPipe)
	defer stopWatching()
	h, err := hold(o, false)
	if err != nil {
		return err
	}
	p := newProcess(h)
	conn, err := p.connect(ctx, parent)
	if conn == nil {
		return errors.Join(err, h.close())
	}
	responder, err := transport.NewResponder(conn, o.Cluster, o.ID, p.instance, p)
	if err != nil {
		conn.Close()
		return errors.Join(err, h.close())
	}
	if o.Lane {
		if p.lane, err = responder.OfferLane(p.seat.note); err != nil {
			p.seat.note("%v: work comes over NATS", err)
		}
	}
	p.endProfile = p.keepProfile()
	o.Log("worker %s (%s, %d threads, node %d) is registered in cluster %s", o.ID, o.Kernels.Name(), h.seat.threads, o.Node, o.Cluster)
	orphan, err := p.live(ctx, responder, parent)
	if orphan {
		o.Log("the parent process has ended: worker %s ends too", o.ID)
		if problem := p.shutDown(responder, conn, orphanTimeout); problem != nil {
			o.Log("warning: %v", problem) // to whoever reads the log; the end of the process ends what is left
		}
		return nil
	}
	return errors.Join(err, p.shutDown(responder, conn, shutDownTimeout))
}

// connect waits for NATS. No connection and no error: the worker was told to end before.
func (p *process) connect(ctx context.Context, parent <-chan struct{}) (*transport.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-parent:
			cancel()
		case <-p.o.Leave:
			cancel()
		case <-stop:
		}
	}()
	options := p.o.Connect
	if options.Name == "" {
		options.Name = p.o.ID
	}
	if options.Log == nil {
		options.Log = p.o.Log
	}
	conn, err := transport.Connect(ctx, options)
	if err != nil && ctx.Err() != nil {
		return nil, nil
	}
	return conn, err
}

// live sends beats until the worker has to end. orphan: because its parent did.
func (p *process) live(ctx context.Context, r *transport.Responder, parent <-chan struct{}) (orphan bool, err error) {
	tick := time.NewTicker(transport.ProgressInterval)
	defer tick.Stop()
	look := time.NewTicker(residencyInterval)
	defer look.Stop()
	leave, drained := p.o.Leave, (<-chan time.Time)(nil)
	var beats beatLog
	var awake wakefulness
	for {
		b := p.beat()
		b.Queue = r.Queued()
		beats.report(p, r.Beat(b))
		if why := p.free(); why != "" {
			p.o.Log("worker %s ends: %s", p.o.ID, why)
			return false, nil
		}
		select {
		case <-leave:
			leave = nil
			limit := time.NewTimer(p.o.DrainTimeout)
			defer limit.Stop()
			drained = limit.C
			p.leave()
			p.o.Log("worker %s is leaving: it serves for up to %v more, until the experts that it owns are elsewhere", p.o.ID, p.o.DrainTimeout)
		case <-drained:
			p.o.Log("warning: worker %s ends after %v of draining, though its coordinator has not let it go", p.o.ID, p.o.DrainTimeout)
			return false, nil
		case <-tick.C:
			p.checkSilence(awake.silence(r.CoordinatorSilence(), time.Now()))
		case <-p.changed:
		case <-look.C:
			p.mu.Lock()
			p.lookNow = true
			p.mu.Unlock()
		case <-parent:
			return true, nil
		case err := <-p.ended:
			return false, err
		case <-ctx.Done():
			return false, nil
		}
	}
}

// beatLog says once that beats can't be sent, and once that they can again.
type beatLog struct{ failing bool }

func (b *beatLog) report(p *process, err error) {
	switch {
	case err != nil && !b.failing:
		p.o.Log("warning: worker %s can't send its beat: %v", p.o.ID, err)
	case err == nil && b.failing:
		p.o.Log("worker %s sends beats again", p.o.ID)
	}
	b.failing = err != nil
}

// shutDown finishes running work and closes everything within a limit. What does not end in time is left to the end of the process.
func (p *process) shutDown(r *transport.Responder, conn *transport.Conn, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		p.depart()
		_ = r.Beat(p.beat()) // the coordinator would notice the silence
		p.stopLoading()
		err := r.Drain(ctx)
		if problem := p.endProfile(); problem != nil {
			p.o.Log("warning: worker %s can't save what is needed most: %v", p.o.ID, problem)
		}
		r.Close()
		conn.Close()
		done <- errors.Join(err, p.close())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// Drain has given up now; a kernel or a disk may still be busy for a moment.
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("worker %s: work did not end within %v", p.o.ID, 2*limit)
	}
}
