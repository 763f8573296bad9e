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
	ErrStopping       = errors.New("the coordinator stops serving")
)

// DeadlineError is the cause of a request that took longer than it may.
type DeadlineError struct{ Timeout time.Duration }

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("the request's deadline of %s has passed (--timeout)", e.Timeout)
}

// GenerateFunc answers one request. ctx ends when the client cancels or goes away (no sign of life), when the request's deadline
// passes, or when the service stops: context.Cause says which. The last event has Done; it is sent even after the end of ctx.
type GenerateFunc func(ctx context.Context, q *GenerateRequest, emit func(*GenerateEvent) error)

// incoming is a message for a service.
type incoming struct {
	reply string
	data  []byte
}

// generateServer answers generate requests, one at a time in order of arrival. Its answers carry a reply subject of their own
// for each stream, to which the client sends signs of life or a cancel, and NATS a note if the client's inbox is gone.
type generateServer struct {
	conn      *Conn
	cluster   string
	instance  string // of the coordinator
	serve     GenerateFunc
	inbox     string
	requests  chan incoming
	controls  chan *nats.Msg
	closing   chan struct{}
	done      sync.WaitGroup
	queue     chan *stream
	malformed atomic.Uint64
	answered  atomic.Uint64
	failed    atomic.Uint64
	running   atomic.Bool

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
	release         context.CancelFunc // of the deadline's timer
	silent          int                // ticks since the client was heard
	number          uint64
	broken          bool // an event could not be sent
	finished        bool
}

// GenerateCounters are a generate service's since its start.
type GenerateCounters struct {
	Answered  uint64 `json:"answered"`
	Failed    uint64 `json:"failed"` // answers that ended with an error
	Malformed uint64 `json:"malformed"`
	Running   bool   `json:"running"`
	Waiting   int    `json:"waiting"` // behind the one that runs
}

func newGenerateServer(c *Conn, cluster, instance string, serve GenerateFunc) *generateServer {
	return &generateServer{
		conn: c, cluster: cluster, instance: instance, serve: serve, inbox: generateStreams(cluster, nuid.Next()), requests: make(chan incoming, receiveCapacity),
		controls: make(chan *nats.Msg, receiveCapacity), closing: make(chan struct{}), queue: make(chan *stream, maxQueuedGenerate),
		sender: newSender(c), streams: map[string]*stream{},
	}
}

// start begins to take what arrives; stop must be called once.
func (s *generateServer) start() (stop func(), err error) {
	controls, err := s.conn.subscribe(s.inbox+".*", s.controls)
	if err != nil {
		return nil, err
	}
	s.done.Add(2)
	go s.receive()
	go s.run()
	return func() {
		_ = controls.Unsubscribe() // fails only on a closed connection
		close(s.closing)
		s.mu.Lock()
		for _, t := range s.streams {
			t.cancel(ErrStopping)
		}
		s.mu.Unlock()
		s.done.Wait()
	}, nil
}

// counters count what clients have seen: an answer's last event is sent and counted under mu.
func (s *generateServer) counters() GenerateCounters {
	s.mu.Lock()
	defer s.mu.Unlock()
	return GenerateCounters{Answered: s.answered.Load(), Failed: s.failed.Load(), Malformed: s.malformed.Load(),
		Running: s.running.Load(), Waiting: len(s.queue)}
}

// arrived takes a request's message from NATS.
func (s *generateServer) arrived(reply string, data []byte) {
	select {
	case s.requests <- incoming{reply, data}:
	case <-s.closing:
	}
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

func (s *generateServer) take(in *receiver, m incoming) {
	k, err := in.frame(m.reply, m.data)
	if err == nil && k == 0 {
		return
	}
	if err == nil && k != kindGenerate {
		err = in.count(unexpected(k))
	}
	t := &stream{client: m.reply}
	if err == nil {
		err = in.decode(&t.request)
	}
	if !answerable(s.cluster, m.reply) {
		return
	}
	if err != nil {
		s.refuse(t, fmt.Sprintf("%s request: %v", code(err), err))
		return
	}
	ctx, release := context.Background(), context.CancelFunc(func() {})
	if limit := t.request.Timeout; limit > 0 {
		ctx, release = context.WithTimeoutCause(ctx, limit, &DeadlineError{limit})
	}
	s.mu.Lock()
	s.started++
	t.control = fmt.Sprintf("%s.%d", s.inbox, s.started)
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.release = release
	s.streams[t.control] = t
	s.mu.Unlock()
	_ = s.emit(t, &GenerateEvent{}) // tells the client where to send signs of life; the next tick says it again
	select {
	case s.queue <- t:
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
	own := *e // the caller's stays as it is
	if t.number == 0 {
		own.Instance = s.instance
	}
	if e.Done && e.Error != "" {
		own.Retry = e.Retry || t.broken || t.ctx != nil && errors.Is(context.Cause(t.ctx), ErrStopping)
	}
	err := s.sender.send(t.client, t.control, kindEvent, &eventFrame{t.number, &own})
	if err != nil {
		t.broken = t.broken || e.Text != "" || len(e.Tokens) > 0
		return fmt.Errorf("send event: %w", sendError(err))
	}
	t.number++
	if t.finished = e.Done; t.finished {
		s.answered.Add(1)
		if e.Error != "" {
			s.failed.Add(1)
		}
	}
	return nil
}

func (s *generateServer) end(t *stream) {
	t.cancel(nil)
	t.release()
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
					t.cancel(ErrStopping)
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
		s.running.Store(true)
		s.call(t)
		s.running.Store(false)
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
		if t.ctx.Err() != nil && !e.Done {
			return context.Cause(t.ctx)
		}
		return s.emit(t, e)
	})
}
