package transport

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// Why a generate request's context ended.
var (
	ErrClientGone     = errors.New("the client is gone")
	ErrClientCanceled = errors.New("canceled by the client")
)

// generateServer answers generate requests, one at a time in order of arrival. Its answers carry a reply subject of their own
// for each stream, to which the client sends signs of life or a cancel, and NATS a note if the client's inbox is gone.
type generateServer struct {
	conn      *Conn
	cluster   string
	serve     func(ctx context.Context, q *GenerateRequest, emit func(*GenerateEvent) error)
	inbox     string
	requests  chan *nats.Msg
	controls  chan *nats.Msg
	closing   chan struct{}
	done      sync.WaitGroup
	queue     chan *stream
	malformed atomic.Uint64

	mu      sync.Mutex // of sender and all that follows
	sender  *sender
	streams map[string]*stream // by control subject
	started uint64
}

// stream is one request and its answer.
type stream struct {
	request         GenerateRequest
	client, control string // subjects
	ctx             context.Context
	cancel          context.CancelCauseFunc
	silent          int // ticks since the client was heard
	number          uint64
	finished        bool
}

// ServeGenerate answers generate requests on the cluster's subject until stop is called. serve is called for one request at a
// time; its ctx ends when the client cancels, goes away (no sign of life), or stop is called. serve's last event has Done.
// Requests beyond the queue's limit get an error event.
func ServeGenerate(c *Conn, cluster string, serve func(ctx context.Context, q *GenerateRequest, emit func(*GenerateEvent) error)) (stop func(), err error) {
	if !ValidName(cluster) {
		return nil, fmt.Errorf("cluster name %q: valid are 1 to 64 of A-Z a-z 0-9 _ -", cluster)
	}
	s := &generateServer{
		conn: c, cluster: cluster, serve: serve, inbox: generateStreams(cluster, nuid.Next()), requests: make(chan *nats.Msg, receiveCapacity),
		controls: make(chan *nats.Msg, receiveCapacity), closing: make(chan struct{}), queue: make(chan *stream, maxQueuedGenerate),
		sender: newSender(c), streams: map[string]*stream{},
	}
	controls, err := c.subscribe(s.inbox+".*", s.controls)
	if err != nil {
		return nil, err
	}
	requests, err := c.nats.ChanQueueSubscribe(generateSubject(cluster), "coordinators", s.requests)
	if err != nil {
		_ = controls.Unsubscribe()
		return nil, fmt.Errorf("subscribe to %s: %w", generateSubject(cluster), err)
	}
	s.done.Add(2)
	go s.receive()
	go s.run()
	return sync.OnceFunc(func() {
		_ = requests.Unsubscribe() // both fail only on a closed connection
		_ = controls.Unsubscribe()
		close(s.closing)
		s.mu.Lock()
		for _, t := range s.streams {
			t.cancel(ErrClosed)
		}
		s.mu.Unlock()
		s.done.Wait()
	}), nil
}

// receive is the goroutine that takes requests and the clients' signs, and sends signs of life.
func (s *generateServer) receive() {
	defer s.done.Done()
	in := newReceiver(&s.malformed)
	tick := time.NewTicker(ProgressInterval)
	defer tick.Stop()
	for {
		select {
		case m := <-s.requests:
			s.take(in, m)
		case m := <-s.controls:
			s.control(in, m)
		case now := <-tick.C:
			s.malformed.Add(uint64(in.parts.expire(now)))
			s.tick()
		case <-s.closing:
			return
		}
	}
}

func (s *generateServer) take(in *receiver, m *nats.Msg) {
	k, err := in.frame(m.Reply, m.Data)
	if err == nil && k == 0 {
		return
	}
	if err == nil && k != kindGenerate {
		err = in.count(unexpected(k))
	}
	t := &stream{client: m.Reply}
	if err == nil {
		err = in.decode(&t.request)
	}
	if !answerable(s.cluster, m.Reply) {
		return
	}
	if err != nil {
		s.refuse(t, fmt.Sprintf("%s request: %v", code(err), err))
		return
	}
	s.mu.Lock()
	s.started++
	t.control = fmt.Sprintf("%s.%d", s.inbox, s.started)
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	s.streams[t.control] = t
	s.mu.Unlock()
	select {
	case s.queue <- t:
		_ = s.emit(t, &GenerateEvent{}) // tells the client where to send signs of life; the next tick says it again
	default:
		s.refuse(t, fmt.Sprintf("%d requests wait already; try again later", maxQueuedGenerate))
		s.end(t)
	}
}

func (s *generateServer) refuse(t *stream, reason string) {
	_ = s.emit(t, &GenerateEvent{Done: true, FinishReason: "error", Error: reason}) // the client notices the silence
}

// control takes a client's sign of life or cancel, or NATS' note that its inbox is gone.
func (s *generateServer) control(in *receiver, m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.streams[m.Subject]
	if t == nil {
		return
	}
	if noResponders(m) {
		t.cancel(ErrClientGone)
		return
	}
	k, err := in.frame(m.Subject, m.Data)
	if err != nil || k == 0 {
		return
	}
	if k != kindAlive && k != kindCancel {
		in.count(unexpected(k))
		return
	}
	if in.decode(empty{}) != nil {
		return
	}
	t.silent = 0
	if k == kindCancel {
		t.cancel(ErrClientCanceled)
	}
}

func (s *generateServer) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.streams {
		if t.silent++; t.silent > silentTicks {
			t.cancel(ErrClientGone)
		}
		_ = s.emitLocked(t, &GenerateEvent{}) // lost with the connection; then the client notices
	}
}

func (s *generateServer) emit(t *stream, e *GenerateEvent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.emitLocked(t, e)
}

func (s *generateServer) emitLocked(t *stream, e *GenerateEvent) error {
	if t.finished {
		return errors.New("the answer was already finished")
	}
	err := s.sender.send(t.client, t.control, kindEvent, &eventFrame{t.number, e})
	if err != nil {
		return fmt.Errorf("send event: %w", sendError(err))
	}
	t.number++
	t.finished = e.Done
	return nil
}

func (s *generateServer) end(t *stream) {
	t.cancel(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, t.control)
}

// run is the goroutine that calls serve.
func (s *generateServer) run() {
	defer s.done.Done()
	for {
		select {
		case t := <-s.queue:
			s.answer(t)
		case <-s.closing:
			for {
				select {
				case t := <-s.queue:
					s.answer(t)
				default:
					return
				}
			}
		}
	}
}

func (s *generateServer) answer(t *stream) {
	defer s.end(t)
	if t.ctx.Err() == nil {
		s.call(t)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.finished {
		return
	}
	reason := "the coordinator gave no end"
	if t.ctx.Err() != nil {
		reason = context.Cause(t.ctx).Error()
	}
	_ = s.emitLocked(t, &GenerateEvent{Done: true, FinishReason: "error", Error: reason}) // the client may be gone
}

// call calls serve; a panic in it ends this request only.
func (s *generateServer) call(t *stream) {
	defer func() {
		if p := recover(); p != nil {
			s.refuse(t, fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	s.serve(t.ctx, &t.request, func(e *GenerateEvent) error {
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		return s.emit(t, e)
	})
}
