package transport

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Reply is what came back for a Work: exactly one of Result, Err, or neither (progress: the worker is alive).
type Reply struct {
	Worker  string
	Request uint64
	Attempt uint32
	Result  *Result
	Err     error // *RemoteError, or ErrNoWorker when nobody listens on the subject
}

// Requester is the coordinator's end: it sends work and control messages and receives replies in one mux inbox. Whoever waits
// in an Exchange reads the inbox itself, for everybody; else a goroutine does.
type Requester struct {
	conn         *Conn
	cluster      string
	inbox        string // prefix of the reply subjects, one per worker
	messages     chan *nats.Msg
	subscription *nats.Subscription
	malformed    atomic.Uint64
	requests     atomic.Uint64
	closing      chan struct{}
	done         sync.WaitGroup

	sending sync.Mutex // held while encoding and publishing
	sender  *sender
	frame   workFrame

	receiving sync.Mutex // while decoding
	in        *receiver
	arm       chan struct{} // has room for one: somebody waits who doesn't read the inbox

	mu      sync.Mutex
	closed  bool
	routes  map[string]*route // by worker
	sources map[string]*route // by reply subject
	waiting []waiting
	spilled []spilled
	numbers uint64 // of control messages
	acks    map[uint64]pendingAck
	free    []*Result
}

// route is how a worker is reached, and how its answers are told from others'.
type route struct {
	worker, instance     string
	work, control, reply string
}

// waiting is where the answers to one (request, worker) go.
type waiting struct {
	request uint64
	route   *route
	replies chan<- Reply
	reads   bool // whoever waits reads the inbox
}

// spilled is a final reply that found its channel full.
type spilled struct {
	replies chan<- Reply
	reply   Reply
}

const maxFreeResults = 64

// NewRequester subscribes the inbox; Close ends it.
func NewRequester(c *Conn, cluster string) (*Requester, error) {
	if !ValidName(cluster) {
		return nil, fmt.Errorf("cluster name %q: valid are 1 to 64 of A-Z a-z 0-9 _ -", cluster)
	}
	r := &Requester{
		conn: c, cluster: cluster, inbox: nats.NewInbox(), arm: make(chan struct{}, 1),
		messages: make(chan *nats.Msg, receiveCapacity), closing: make(chan struct{}),
		sender: newSender(c), routes: map[string]*route{}, sources: map[string]*route{}, acks: map[uint64]pendingAck{},
	}
	r.in = newReceiver(&r.malformed)
	var err error
	if r.subscription, err = c.nats.ChanSubscribe(r.inbox+".*", r.messages); err != nil {
		return nil, fmt.Errorf("subscribe the inbox: %w", err)
	}
	r.done.Add(1)
	go r.receive()
	return r, nil
}

// Close unsubscribes and ends its goroutine.
func (r *Requester) Close() {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.closed = true
	r.waiting, r.spilled = nil, nil
	for number, a := range r.acks {
		a.answer <- ErrClosed
		delete(r.acks, number)
	}
	r.mu.Unlock()
	_ = r.subscription.Unsubscribe() // fails only on a closed connection
	close(r.closing)
	r.done.Wait()
}

// Address makes instance the only process that takes messages to this worker id; another holder of the id ignores them. ""
// (the start) is whoever holds the id.
func (r *Requester) Address(worker, instance string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.routes[worker]; !ok || old.instance != instance {
		r.newRoute(worker, instance)
	}
}

// newRoute replaces the route of a worker; requests under way keep the old one's addresses.
func (r *Requester) newRoute(worker, instance string) *route {
	n := &route{worker: worker, instance: instance, work: workSubject(r.cluster, worker), control: controlSubject(r.cluster, worker),
		reply: r.inbox + "." + worker}
	if old, ok := r.routes[worker]; ok {
		for i := range r.waiting {
			if r.waiting[i].route == old {
				r.waiting[i].route = n
			}
		}
	}
	r.routes[worker], r.sources[n.reply] = n, n
	return n
}

func (r *Requester) route(worker string) (*route, error) {
	if n, ok := r.routes[worker]; ok {
		return n, nil
	}
	if !ValidName(worker) {
		return nil, fmt.Errorf("worker id %q: valid are 1 to 64 of A-Z a-z 0-9 _ -", worker)
	}
	return r.newRoute(worker, ""), nil
}

// Send sends work (in parts where needed); replies with its request id go to replies until the result or an error came, or
// Forget. replies needs room: a full channel loses progress, and delays results. (Request, Worker) must be unique among the
// outstanding. w is not kept.
func (r *Requester) Send(worker string, w *Work, replies chan<- Reply) error {
	err := r.send(worker, w, replies, false)
	r.wake()
	return err
}

func (r *Requester) send(worker string, w *Work, replies chan<- Reply, reads bool) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	to, err := r.route(worker)
	if err == nil && r.find(w.Request, to) >= 0 {
		err = fmt.Errorf("request %d to worker %s is already under way", w.Request, worker)
	}
	if err != nil {
		r.mu.Unlock()
		return err
	}
	r.waiting = append(r.waiting, waiting{w.Request, to, replies, reads})
	r.mu.Unlock()

	r.sending.Lock()
	r.frame = workFrame{target: to.instance, work: w}
	err = r.sender.send(to.work, to.reply, kindWork, &r.frame)
	r.frame.work = nil
	r.sending.Unlock()
	if err != nil {
		r.mu.Lock()
		if i := r.find(w.Request, to); i >= 0 {
			r.remove(i)
		}
		r.mu.Unlock()
		return fmt.Errorf("send work to worker %s: %w", worker, sendError(err))
	}
	return nil
}

// sendError explains NATS' own words.
func sendError(err error) error {
	if errors.Is(err, nats.ErrReconnectBufExceeded) {
		return errors.New("not connected to NATS at the moment")
	}
	return err
}

func (r *Requester) find(request uint64, to *route) int {
	for i := range r.waiting {
		if r.waiting[i].request == request && r.waiting[i].route == to {
			return i
		}
	}
	return -1
}

func (r *Requester) remove(i int) {
	last := len(r.waiting) - 1
	r.waiting[i], r.waiting[last] = r.waiting[last], waiting{}
	r.waiting = r.waiting[:last]
}

// NextRequest gives a request id that no other has.
func (r *Requester) NextRequest() uint64 { return r.requests.Add(1) }

// Forget drops whatever comes later for a request id, of all workers.
func (r *Requester) Forget(request uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; i < len(r.waiting); {
		if r.waiting[i].request == request {
			r.remove(i)
		} else {
			i++
		}
	}
	if len(r.spilled) == 0 {
		return
	}
	kept := r.spilled[:0]
	for _, s := range r.spilled {
		if s.reply.Request != request {
			kept = append(kept, s)
		}
	}
	r.spilled = kept
}

// Recycle gives a Result back, whose memory then holds a later one.
func (r *Requester) Recycle(m *Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recycleLocked(m)
}

func (r *Requester) recycleLocked(m *Result) {
	if len(r.free) < maxFreeResults {
		r.free = append(r.free, m)
	}
}

func (r *Requester) newResult() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.free)
	if n == 0 {
		return &Result{}
	}
	m := r.free[n-1]
	r.free = r.free[:n-1]
	return m
}

// Malformed counts messages that could not be decoded since the start, on this end.
func (r *Requester) Malformed() uint64 { return r.malformed.Load() }

// wake makes the goroutine of the inbox look whether it is needed.
func (r *Requester) wake() {
	select {
	case r.arm <- struct{}{}:
	default:
	}
}

// needed says whether somebody waits who doesn't read the inbox.
func (r *Requester) needed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.waiting {
		if !r.waiting[i].reads {
			return true
		}
	}
	return len(r.acks) > 0
}

// receive is the goroutine of the inbox. It leaves the reading to those who wait in an Exchange, but once in a while takes what
// has come for nobody.
func (r *Requester) receive() {
	defer r.done.Done()
	tick := time.NewTicker(ProgressInterval)
	defer tick.Stop()
	for {
		messages := r.messages
		if !r.needed() {
			messages = nil
		}
		select {
		case m := <-messages:
			r.handle(m, nil)
		case <-r.arm:
		case now := <-tick.C:
			r.receiving.Lock()
			r.malformed.Add(uint64(r.in.parts.expire(now)))
			r.receiving.Unlock()
			for range len(r.messages) {
				select {
				case m := <-r.messages:
					r.handle(m, nil)
				default:
				}
			}
			r.unspill()
		case <-r.closing:
			return
		}
	}
}

// handle takes one message. A reply that belongs to own is given back, any other goes where it belongs.
func (r *Requester) handle(m *nats.Msg, own chan<- Reply) (reply Reply, mine bool) {
	r.mu.Lock()
	from := r.sources[m.Subject]
	r.mu.Unlock()
	if from == nil {
		r.malformed.Add(1)
		return Reply{}, false
	}
	if noResponders(m) {
		r.gone(from)
		return Reply{}, false
	}
	reply = Reply{Worker: from.worker}
	if !r.decode(m, from, &reply) {
		return Reply{}, false
	}
	return r.deliver(reply, own)
}

// decode reads a reply to work; other messages are dealt with here.
func (r *Requester) decode(m *nats.Msg, from *route, reply *Reply) bool {
	r.receiving.Lock()
	defer r.receiving.Unlock()
	k, err := r.in.frame(m.Subject, m.Data)
	if err != nil || k == 0 {
		return false
	}
	switch k {
	case kindResult:
		reply.Result = r.newResult()
		if r.in.decode(reply.Result) != nil {
			r.Recycle(reply.Result)
			return false
		}
		reply.Request, reply.Attempt = reply.Result.Request, reply.Result.Attempt
		return true
	case kindProgress:
		var p progress
		if r.in.decode(&p) != nil {
			return false
		}
		reply.Request, reply.Attempt = p.request, p.attempt
		return true
	case kindError:
		var f failure
		if r.in.decode(&f) != nil {
			return false
		}
		reply.Request, reply.Attempt = f.request, f.attempt
		reply.Err = &RemoteError{Worker: from.worker, Code: f.code, Message: f.message}
		return true
	case kindAck:
		var a ack
		if r.in.decode(&a) == nil {
			r.acknowledge(from, &a)
		}
	default:
		r.in.count(unexpected(k))
	}
	return false
}

// deliver hands a reply to whoever waits for it, or gives it back if that is own. What nobody waits for is dropped.
func (r *Requester) deliver(reply Reply, own chan<- Reply) (Reply, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := -1
	if to, ok := r.routes[reply.Worker]; ok {
		i = r.find(reply.Request, to)
	}
	if i < 0 {
		if reply.Result != nil {
			r.recycleLocked(reply.Result)
		}
		return Reply{}, false
	}
	replies, final := r.waiting[i].replies, reply.Result != nil || reply.Err != nil
	if final {
		r.remove(i)
	}
	if replies == own {
		return reply, true
	}
	r.put(replies, reply, final)
	return Reply{}, false
}

func (r *Requester) put(replies chan<- Reply, reply Reply, final bool) {
	select {
	case replies <- reply:
	default:
		if final {
			r.spilled = append(r.spilled, spilled{replies, reply})
		}
	}
}

// unspill tries again to deliver what found its channel full.
func (r *Requester) unspill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	again := r.spilled
	r.spilled = nil
	for _, s := range again {
		r.put(s.replies, s.reply, true)
	}
}

// gone answers everything that waits for a worker on whose subjects nobody listens.
func (r *Requester) gone(from *route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; i < len(r.waiting); {
		w := r.waiting[i]
		if w.route.worker != from.worker {
			i++
			continue
		}
		r.remove(i)
		r.put(w.replies, Reply{Worker: from.worker, Request: w.request, Err: ErrNoWorker}, true)
	}
	for number, a := range r.acks {
		if a.worker == from.worker {
			a.answer <- ErrNoWorker
			delete(r.acks, number)
		}
	}
}
