package transport

import (
	"context"
	"time"
)

// Exchange sends work and waits for its replies, for one goroutine, which reads the Requester's inbox itself while it waits:
// a reply reaches it without another goroutine in between.
type Exchange struct {
	requester *Requester
	replies   chan Reply
	lanes     []laneUse // of requests that are owed an answer on a lane that this goroutine reads
}

type laneUse struct {
	worker string
	lane   *lane
}

// NewExchange gives an Exchange for up to outstanding requests at a time.
func (r *Requester) NewExchange(outstanding int) *Exchange {
	return &Exchange{requester: r, replies: make(chan Reply, 4*outstanding+16)}
}

// NextRequest is as Requester.NextRequest.
func (x *Exchange) NextRequest() uint64 { return x.requester.NextRequest() }

// Send is as Requester.Send; its replies come from Receive.
func (x *Exchange) Send(worker string, w *Work) error {
	l, err := x.requester.send(worker, w, x.replies, true)
	if l != nil && err == nil {
		x.lanes = append(x.lanes, laneUse{worker, l})
	}
	return err
}

// Receive waits for the next reply; ok is false if ctx ended or tick fired first.
func (x *Exchange) Receive(ctx context.Context, tick <-chan time.Time) (reply Reply, ok bool) {
	return x.ReceiveOr(ctx, tick, nil)
}

// ReceiveOr is Receive that also ends when wake is closed or sends; both may be seen late, by twice laneWait, where a lane is read.
func (x *Exchange) ReceiveOr(ctx context.Context, tick <-chan time.Time, wake <-chan struct{}) (reply Reply, ok bool) {
	if len(x.lanes) > 0 && ctx.Err() == nil {
		if reply, ok = x.receiveLanes(); ok {
			return reply, true
		}
	}
	for {
		select {
		case reply = <-x.replies: // read by another goroutine
			return reply, true
		case m := <-x.requester.messages:
			if reply, ok = x.requester.handle(m, x.replies); ok {
				return reply, true
			}
		case <-tick:
			return Reply{}, false
		case <-wake:
			return Reply{}, false
		case <-ctx.Done():
			return Reply{}, false
		}
	}
}

// receiveLanes reads the lanes one after the other, since all answers are needed; false: it takes long, and the lanes' own goroutines read
// them from now on.
func (x *Exchange) receiveLanes() (Reply, bool) {
	for len(x.lanes) > 0 {
		select {
		case reply := <-x.replies: // read by another goroutine
			return reply, true
		default:
		}
		last := len(x.lanes) - 1
		u := x.lanes[last]
		reply, mine, late, err := x.requester.readLane(u, x.replies)
		switch {
		case late:
			x.leaveLanes()
		case err != nil:
			x.lanes = x.lanes[:last]
			x.requester.brokeLane(u, err)
		case mine:
			if reply.Result != nil || reply.Err != nil {
				x.lanes = x.lanes[:last]
			}
			return reply, true
		}
	}
	return Reply{}, false
}

// leaveLanes leaves the reading to the lanes' own goroutines.
func (x *Exchange) leaveLanes() {
	for _, u := range x.lanes {
		u.lane.wake()
	}
	x.lanes = x.lanes[:0]
}

// Probe is as Requester.Probe.
func (x *Exchange) Probe(worker string) error { return x.requester.Probe(worker) }

// Forget drops whatever comes later for a request.
func (x *Exchange) Forget(request uint64) {
	x.leaveLanes()
	x.requester.Forget(request)
}

// Recycle gives a Result back.
func (x *Exchange) Recycle(m *Result) { x.requester.Recycle(m) }
