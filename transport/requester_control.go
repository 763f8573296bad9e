package transport

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// pendingAck is a control message that waits for its acknowledgement; answer has room for one.
type pendingAck struct {
	worker string
	answer chan error
}

// Assign gives a worker its expert parts and waits for its acknowledgement (of receipt; loading shows in beats), for
// SilenceLimit at most.
func (r *Requester) Assign(ctx context.Context, worker string, m *Assign) error {
	return r.control(ctx, worker, nil, kindAssign, m)
}

// Refuse tells an instance of a worker why it can't take part.
func (r *Requester) Refuse(ctx context.Context, worker, instance string, m *Refuse) error {
	return r.control(ctx, worker, &instance, kindRefuse, m)
}

// Drain tells a worker to leave.
func (r *Requester) Drain(ctx context.Context, worker string) error {
	return r.control(ctx, worker, nil, kindDrain, &Drain{})
}

// Probe finds out whether a worker's process is gone: if nobody listens on its subjects, everything that waits for it is answered
// with ErrNoWorker. The worker itself does not answer.
func (r *Requester) Probe(worker string) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	to, err := r.route(worker)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	r.sending.Lock()
	defer r.sending.Unlock()
	return r.sender.send(to.control, to.reply, kindProbe, empty{})
}

// control sends a control message and waits. target nil is the instance that Address named.
func (r *Requester) control(ctx context.Context, worker string, target *string, k kind, m message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, SilenceLimit, fmt.Errorf("no answer within %s", SilenceLimit))
	defer cancel()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	to, err := r.route(worker)
	if err != nil {
		r.mu.Unlock()
		return err
	}
	if target == nil {
		target = &to.instance
	}
	r.numbers++
	number, pending := r.numbers, pendingAck{worker, make(chan error, 1)}
	r.acks[number] = pending
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.acks, number)
		r.mu.Unlock()
	}()

	r.sending.Lock()
	err = r.sender.send(to.control, to.reply, k, &control{number: number, target: *target, message: m})
	r.sending.Unlock()
	r.wake()
	if err != nil {
		return fmt.Errorf("worker %s: %w", worker, sendError(err))
	}
	select {
	case err := <-pending.answer:
		if err != nil {
			return fmt.Errorf("worker %s: %w", worker, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("worker %s: %w", worker, context.Cause(ctx))
	}
}

func (r *Requester) acknowledge(from *route, a *ack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending, ok := r.acks[a.number]
	if !ok || pending.worker != from.worker {
		return
	}
	delete(r.acks, a.number)
	var err error
	if a.code != "" {
		err = &RemoteError{Worker: from.worker, Code: a.code, Message: a.message}
	}
	pending.answer <- err
}

// CoordinatorBeat tells the workers that this coordinator lives; it is due each ProgressInterval.
func (r *Requester) CoordinatorBeat(m *CoordinatorBeat) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	return r.sender.send(coordinatorSubject(r.cluster), "", kindCoordinator, m)
}

// SubscribeBeats calls f for each beat of the cluster, in order, until stop is called. A worker that speaks another version of
// the protocol is shown by a beat that has only its id and that version. f must not call stop.
func (r *Requester) SubscribeBeats(f func(*Beat)) (stop func(), err error) {
	messages := make(chan *nats.Msg, receiveCapacity)
	subscription, err := r.conn.subscribe(beatSubject(r.cluster, "*"), messages)
	if err != nil {
		return nil, err
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		in := newReceiver(&r.malformed)
		for {
			select {
			case m := <-messages:
				if b := beat(in, m); b != nil {
					f(b)
				}
			case <-end:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		_ = subscription.Unsubscribe() // fails only on a closed connection
		close(end)
		<-ended
	}), nil
}

// beat decodes a beat; nil if it is malformed or names another worker than its subject.
func beat(in *receiver, m *nats.Msg) *Beat {
	worker := lastToken(m.Subject)
	k, err := in.frame(m.Subject, m.Data)
	if v, ok := err.(*versionError); ok && k == kindBeat && ValidName(worker) {
		return &Beat{Worker: worker, Identity: Identity{Protocol: int(v.theirs)}}
	}
	if err != nil || k == 0 {
		return nil
	}
	if k != kindBeat {
		in.count(unexpected(k))
		return nil
	}
	b := &Beat{}
	if in.decode(b) != nil {
		return nil
	}
	if b.Worker != worker || !ValidName(worker) {
		in.count(&malformedError{fmt.Sprintf("beat of worker %q on the subject of %q", b.Worker, worker)})
		return nil
	}
	return b
}
