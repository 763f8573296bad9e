package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// workerLane is a worker process's lane, or that there is none.
type workerLane struct {
	instance string
	lane     *lane // nil: NATS
	lost     func(error)
}

// UseLane connects to the lane that a worker's process offers in its beats; work goes over it from then on. It is tried once for
// each process: later calls for the same instance do nothing. The error says why the worker stays on NATS. lost is told once
// when the lane breaks later; NATS is used again then, also for what is under way. It may be nil and must return soon.
func (r *Requester) UseLane(ctx context.Context, worker, instance string, offer LaneOffer, lost func(error)) error {
	own := &workerLane{instance: instance, lost: lost}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	before := r.lanes[worker]
	if before != nil && before.instance == instance {
		r.mu.Unlock()
		return nil
	}
	r.lanes[worker] = own
	to, err := r.route(worker)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if before != nil && before.lane != nil {
		before.lane.close()
	}
	l, err := r.openLane(ctx, to, instance, offer)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.lanes[worker] != own {
		l.close()
		return ErrClosed
	}
	own.lane = l
	r.done.Add(1)
	go r.receiveLane(worker, own, l)
	return nil
}

// Lane is how work goes to a worker: LaneNATS or LaneLocal.
func (r *Requester) Lane(worker string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.lanes[worker]; w != nil && w.lane != nil {
		return LaneLocal
	}
	return LaneNATS
}

// openLane dials and shakes hands.
func (r *Requester) openLane(ctx context.Context, to *route, instance string, offer LaneOffer) (*lane, error) {
	if offer == (LaneOffer{}) {
		return nil, errors.New("it offers no local lane (--lane local)")
	}
	host, err := laneHost()
	if err != nil {
		return nil, err
	}
	if offer.Host != host {
		return nil, errors.New("it runs on another host")
	}
	deadline := time.Now().Add(laneHandshake)
	dialing, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	conn, err := dialLane(dialing, offer.Address)
	if err != nil {
		return nil, err
	}
	l := newLane(conn, newReceiver(&r.malformed))
	stop := context.AfterFunc(ctx, l.close) // a coordinator that ends must not wait for a worker that hangs
	err = l.greet(deadline, &hello{secret: offer.Secret, worker: to.worker, instance: instance, reply: to.reply})
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// greet proves the secret and waits for the worker's word.
func (l *lane) greet(deadline time.Time, h *hello) error {
	if err := checkPeer(l.conn); err != nil {
		return err
	}
	if err := l.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	if err := l.send(kindHello, h); err != nil {
		return err
	}
	frame, err := l.next()
	if err != nil {
		return fmt.Errorf("no answer on its socket: %w", err)
	}
	var a ack
	if k, err := l.in.whole(frame); err != nil {
		return err
	} else if k != kindAck {
		return l.in.count(unexpected(k))
	}
	if err := l.in.decode(&a); err != nil {
		return err
	}
	if a.code != "" {
		return fmt.Errorf("%s: %s", a.code, a.message)
	}
	l.limit = MaxMessage
	return l.conn.SetReadDeadline(time.Time{})
}

// laneWait is for how long whoever waits for a reply reads the lane itself, at least; at most twice as long. Meanwhile it sees nothing
// else. Then the lane's own goroutine does.
const laneWait = 20 * time.Millisecond

// receiveLane is a lane's own goroutine: it reads what is owed when nobody waits in an Exchange, or for long.
func (r *Requester) receiveLane(worker string, own *workerLane, l *lane) {
	defer r.done.Done()
	for {
		select {
		case <-l.arm:
		case <-l.ended:
			r.endLane(own, l, errLane)
			return
		}
		if err := r.drainLane(worker, l); err != nil {
			r.endLane(own, l, err)
			return
		}
	}
}

func (r *Requester) drainLane(worker string, l *lane) error {
	l.receiving.Lock()
	defer l.receiving.Unlock()
	l.readUntil = time.Time{}
	if err := l.conn.SetReadDeadline(l.readUntil); err != nil {
		return err
	}
	for l.owed.Load() > 0 {
		frame, err := l.next()
		if err != nil {
			return err
		}
		if _, _, err := r.handleLane(worker, l, frame, nil); err != nil {
			return err
		}
	}
	return nil
}

// readLane reads one frame in the goroutine that waits for it. late: none came in time, or another goroutine reads already.
func (r *Requester) readLane(u laneUse, own chan<- Reply) (reply Reply, mine, late bool, err error) {
	l := u.lane
	if !l.receiving.TryLock() {
		return Reply{}, false, true, nil
	}
	defer l.receiving.Unlock()
	// Deadlines are renewed seldom: each one costs as much as a switch of goroutines.
	if now := time.Now(); l.readUntil.Sub(now) < laneWait {
		l.readUntil = now.Add(2 * laneWait)
		_ = l.conn.SetReadDeadline(l.readUntil) // fails only on a closed connection
	}
	frame, err := l.next()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return Reply{}, false, true, nil
	}
	if err == nil {
		reply, mine, err = r.handleLane(u.worker, l, frame, own)
	}
	return reply, mine, false, err
}

// handleLane takes one frame; an error ends the lane.
func (r *Requester) handleLane(worker string, l *lane, frame []byte, own chan<- Reply) (reply Reply, mine bool, err error) {
	k, err := l.in.whole(frame)
	if err != nil {
		return Reply{}, false, err
	}
	reply = Reply{Worker: worker}
	if err := r.decodeReply(l.in, k, &reply); err != nil {
		return Reply{}, false, err
	}
	if k != kindProgress {
		l.owed.Add(-1)
	}
	reply, mine = r.deliver(reply, own)
	return reply, mine, nil
}

// endLane goes back to NATS: what was sent over the lane and not answered is sent again there. The worker may compute it twice; the
// first answer counts.
func (r *Requester) endLane(own *workerLane, l *lane, err error) {
	l.close()
	r.mu.Lock()
	if own.lane != l {
		r.mu.Unlock()
		return
	}
	own.lane = nil
	closed := r.closed
	var again []waiting
	for i := range r.waiting {
		if w := &r.waiting[i]; w.lane == l && w.frame != nil {
			again = append(again, *w)
			w.lane, w.frame, w.reads = nil, nil, false
		}
	}
	r.mu.Unlock()
	if closed {
		return
	}
	if own.lost != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the worker closed it")
		}
		own.lost(err)
	}
	for _, w := range again {
		r.resend(&w)
	}
	r.wake()
}

// brokeLane is endLane for whoever read a lane.
func (r *Requester) brokeLane(u laneUse, err error) {
	r.mu.Lock()
	own := r.lanes[u.worker]
	r.mu.Unlock()
	r.endLane(own, u.lane, err)
}

// resend sends a lane's frame over NATS; if that fails, too, the request is answered with the error.
func (r *Requester) resend(w *waiting) {
	r.sending.Lock()
	err := r.sender.publish(w.route.work, w.route.reply, w.frame[laneHead:])
	r.sending.Unlock()
	if err == nil {
		return
	}
	r.deliver(Reply{Worker: w.route.worker, Request: w.request, Err: fmt.Errorf("send work to worker %s: %w", w.route.worker, sendError(err))}, nil)
}

// laneTo is the lane to a route's process, nil if work for it goes over NATS; callers hold mu.
func (r *Requester) laneTo(to *route) *workerLane {
	w := r.lanes[to.worker]
	if w == nil || w.lane == nil || to.instance != "" && to.instance != w.instance {
		return nil
	}
	return w
}

// sendLane sends work over a lane, or over NATS if it breaks on the way. The frame is kept until the answer comes, since the lane may
// break until then.
func (r *Requester) sendLane(to *route, own *workerLane, l *lane, w *Work) error {
	r.sending.Lock()
	r.laneWire.buf = r.newFrame()
	r.frame = workFrame{target: to.instance, work: w}
	err := encodeLane(&r.laneWire, kindWork, &r.frame)
	r.frame.work = nil
	frame := r.laneWire.buf
	r.laneWire.buf = nil
	r.sending.Unlock()
	if err != nil {
		return r.unsent(to, w, err)
	}
	l.owed.Add(1)
	if err = l.write(frame); err != nil {
		r.endLane(own, l, err)
	}
	r.mu.Lock()
	i := r.find(w.Request, r.routes[to.worker])
	switch {
	case i < 0: // answered already, or forgotten
		r.freeFrame(frame)
	case err == nil && own.lane == l:
		r.waiting[i].frame = frame
	default: // it broke: endLane has not seen the frame
		r.waiting[i].lane, r.waiting[i].reads = nil, false
		again := r.waiting[i]
		again.frame = frame
		r.mu.Unlock()
		r.resend(&again)
		r.wake()
		return nil
	}
	r.mu.Unlock()
	return nil
}

// maxFreeFrames and maxFreeFrame bound the memory that is kept for the next frames.
const (
	maxFreeFrames = 16
	maxFreeFrame  = maxSpare / maxFreeFrames
)

func (r *Requester) newFrame() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.frames)
	if n == 0 {
		return nil
	}
	frame := r.frames[n-1]
	r.frames = r.frames[:n-1]
	return frame
}

// freeFrame takes the memory of a frame back; callers hold mu.
func (r *Requester) freeFrame(frame []byte) {
	if frame != nil && len(r.frames) < maxFreeFrames && cap(frame) <= maxFreeFrame {
		r.frames = append(r.frames, frame)
	}
}
