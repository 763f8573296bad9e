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
}

// NewExchange gives an Exchange for up to outstanding requests at a time.
func (r *Requester) NewExchange(outstanding int) *Exchange {
	return &Exchange{r, make(chan Reply, 4*outstanding+16)}
}

// NextRequest is as Requester.NextRequest.
func (x *Exchange) NextRequest() uint64 { return x.requester.NextRequest() }

// Send is as Requester.Send; its replies come from Receive.
func (x *Exchange) Send(worker string, w *Work) error {
	return x.requester.send(worker, w, x.replies, true)
}

// Receive waits for the next reply; ok is false if ctx ended or tick fired first.
func (x *Exchange) Receive(ctx context.Context, tick <-chan time.Time) (reply Reply, ok bool) {
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
		case <-ctx.Done():
			return Reply{}, false
		}
	}
}

// Probe is as Requester.Probe.
func (x *Exchange) Probe(worker string) error { return x.requester.Probe(worker) }

// Forget drops whatever comes later for a request.
func (x *Exchange) Forget(request uint64) { x.requester.Forget(request) }

// Recycle gives a Result back.
func (x *Exchange) Recycle(m *Result) { x.requester.Recycle(m) }
