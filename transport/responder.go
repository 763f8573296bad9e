package transport

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Handler is what a worker does. Errors that are not *RemoteError are sent with CodeInternal.
type Handler interface {
	// Work computes; while it runs, progress is reported each second. ctx ends with the responder. One call at a time, in order
	// of arrival; w is valid until it returns. The result may be reused by the handler after the next call of Work begins.
	Work(ctx context.Context, w *Work) (*Result, error)
	// Assign takes an assignment and returns at once, since the acknowledgement waits for it; loading goes on behind it. ctx ends
	// with the responder. Assign, Refused, Drain and CoordinatorBeat are called one at a time, also while Work runs.
	Assign(ctx context.Context, m *Assign) error
	Refused(reason string)
	Drain()
	// CoordinatorBeat is told each coordinator's beat, also those of coordinators that it doesn't work for. It returns at once.
	CoordinatorBeat(m *CoordinatorBeat)
}

// Responder is a worker's end: it receives work and control messages and sends beats.
type Responder struct {
	conn             *Conn
	cluster          string
	worker, instance string
	handler          Handler
	malformed        atomic.Uint64
	heard            heard

	ctx           context.Context // of the handler's calls
	cancel        context.CancelFunc
	closing       chan struct{}
	closeOnce     sync.Once
	done          sync.WaitGroup
	subscriptions []*nats.Subscription
	work          chan *nats.Msg
	control       chan *nats.Msg
	queue         queue
	lanes         laneServer

	turns    *relay     // of receiveWork
	decoding sync.Mutex // of in
	in       *receiver

	sending sync.Mutex // of beats
	beats   *sender
}

// workReceivers is one that computes and one that receives meanwhile.
const workReceivers = 2

// NewResponder subscribes to the worker's subjects. instance is the beats' Instance: messages addressed to another instance
// of the same id are not taken.
func NewResponder(c *Conn, cluster, worker, instance string, h Handler) (*Responder, error) {
	for what, name := range map[string]string{"cluster name": cluster, "worker id": worker, "instance": instance} {
		if err := checkName(what, name); err != nil {
			return nil, err
		}
	}
	r := &Responder{
		conn: c, cluster: cluster, worker: worker, instance: instance, handler: h, closing: make(chan struct{}), turns: newRelay(),
		work: make(chan *nats.Msg, receiveCapacity), control: make(chan *nats.Msg, receiveCapacity), beats: newSender(c),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.in = newReceiver(&r.malformed)
	r.heard.now()
	subjects := []struct {
		name string
		to   chan *nats.Msg
	}{
		{workSubject(cluster, worker), r.work}, {controlSubject(cluster, worker), r.control}, {coordinatorSubject(cluster), r.control},
	}
	for _, s := range subjects {
		subscription, err := c.subscribe(s.name, s.to)
		if err != nil {
			r.unsubscribe()
			r.cancel()
			return nil, fmt.Errorf("worker %s: %w", worker, err)
		}
		r.subscriptions = append(r.subscriptions, subscription)
	}
	r.done.Add(workReceivers + 2)
	for range workReceivers {
		go r.receiveWork()
	}
	go r.report()
	go r.receiveControl()
	return r, nil
}

func (r *Responder) unsubscribe() {
	for _, s := range r.subscriptions {
		_ = s.Unsubscribe() // fails only on a closed connection
	}
}

// Beat publishes a beat.
func (r *Responder) Beat(b *Beat) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	if err := r.beats.send(beatSubject(r.cluster, r.worker), "", kindBeat, b); err != nil {
		return fmt.Errorf("send beat: %w", sendError(err))
	}
	return nil
}

// Queued is how many Works wait or are computed now.
func (r *Responder) Queued() int { return r.queue.length() }

// CoordinatorSilence tells how long ago the coordinator was last heard (its own beat, work or control), for rejoining. Once
// assigned, only the coordinator that assigned counts.
func (r *Responder) CoordinatorSilence() (seconds float64) { return r.heard.silence().Seconds() }

// Drain stops taking new work and waits for the running, until ctx ends.
func (r *Responder) Drain(ctx context.Context) error {
	select {
	case <-r.queue.drain():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("worker %s: work still runs: %w", r.worker, context.Cause(ctx))
	}
}

// Close unsubscribes and ends its goroutines; a running Work is told by its ctx and waited for.
func (r *Responder) Close() {
	r.closeOnce.Do(func() {
		r.unsubscribe()
		r.cancel()
		r.queue.close()
		close(r.closing)
		r.lanes.close()
	})
	r.done.Wait()
}

// Malformed counts messages that could not be decoded.
func (r *Responder) Malformed() uint64 { return r.malformed.Load() }

// heard knows when the coordinator was last heard.
type heard struct {
	mu       sync.Mutex
	at       time.Time
	instance string // of the coordinator that assigned, "" if none has
	inbox    string // prefix of its reply subjects
}

func (h *heard) now() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = time.Now()
}

func (h *heard) silence() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Since(h.at)
}

func (h *heard) assigned(instance, inbox string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.instance, h.inbox, h.at = instance, inbox, time.Now()
}

func (h *heard) beat(instance string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.instance == "" || h.instance == instance {
		h.at = time.Now()
	}
}

func (h *heard) message(reply string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inbox == "" || h.inbox == reply {
		h.at = time.Now()
	}
}
