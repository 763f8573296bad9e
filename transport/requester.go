package transport

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// Reply is what came back for a Work: exactly one of Result, Err, or neither (progress: the worker is alive).
type Reply struct {
	Worker  string
	Request uint64
	Attempt uint32
	Result  *Result
	Err     error // *RemoteError, ErrNoWorker when nobody listens on the subject, or ErrConnectionLost
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

	sending  sync.Mutex // held while encoding and publishing
	sender   *sender
	frame    workFrame
	laneWire wire

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
	frames  [][]byte               // memory for lanes' frames
	lanes   map[string]*workerLane // by worker
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
	reads   bool   // whoever waits reads the inbox
	lane    *lane  // that it was sent over; nil: NATS
	frame   []byte // what was sent over the lane
}

// spilled is a final reply that found its channel full.
type spilled struct {
	replies chan<- Reply
	reply   Reply
}

const maxFreeResults = 64

// NewRequester subscribes the inbox; Close ends it.
func NewRequester(c *Conn, cluster string) (*Requester, error) {
	if err := checkName("cluster name", cluster); err != nil {
		return nil, err
	}
	r := &Requester{
		conn: c, cluster: cluster, inbox: replyInbox(cluster, nuid.Next()), arm: make(chan struct{}, 1),
		messages: make(chan *nats.Msg, receiveCapacity), closing: make(chan struct{}),
		sender: newSender(c), routes: map[string]*route{}, sources: map[string]*route{}, acks: map[uint64]pendingAck{}, lanes: map[string]*workerLane{},
	}
	r.in = newReceiver(&r.malformed)
	var err error
	if r.subscription, err = c.subscribe(replySubject(r.inbox, "*"), r.messages); err != nil {
		return nil, err
	}
	c.onLost(r, r.lost)
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
	for _, w := range r.lanes {
		if w.lane != nil {
			w.lane.close()
		}
	}
	r.mu.Unlock()
	r.conn.onLost(r, nil)
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
		reply: replySubject(r.inbox, worker)}
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
	if err := checkName("worker id", worker); err != nil {
		return nil, err
	}
	return r.newRoute(worker, ""), nil
}

// Send sends work (in parts where needed); replies with its request id go to replies until the result or an error came, or
// Forget. replies needs room: a full channel loses progress, and delays results. (Request, Worker) must be unique among the
// outstanding. w is not kept. After an error no result comes, but what was sent of it may still bring an error reply.
func (r *Requester) Send(worker string, w *Work, replies chan<- Reply) error {
	l, err := r.send(worker, w, replies, false)
	if l != nil {
		l.wake()
	}
	r.wake()
	return err
}

// send gives the lane that it went over, nil for NATS.
func (r *Requester) send(worker string, w *Work, replies chan<- Reply, reads bool) (used *lane, err error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	to, err := r.route(worker)
	if err == nil && r.find(w.Request, to) >= 0 {
		err = fmt.Errorf("request %d to worker %s is already under way", w.Request, worker)
	}
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	own, l := r.laneTo(to), (*lane)(nil)
	if own != nil {
		l = own.lane
	}
	r.waiting = append(r.waiting, waiting{request: w.Request, route: to, replies: replies, reads: reads || l != nil, lane: l})
	r.mu.Unlock()
	if l != nil {
		return l, r.sendLane(to, own, l, w)
	}

	r.sending.Lock()
	r.frame = workFrame{target: to.instance, work: w}
	err = r.sender.send(to.work, to.reply, kindWork, &r.frame)
	r.frame.work = nil
	r.sending.Unlock()
	if err != nil {
		return nil, r.unsent(to, w, err)
	}
	return nil, nil
}

// unsent takes back that a request is under way.
func (r *Requester) unsent(to *route, w *Work, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.find(w.Request, to); i >= 0 {
		r.remove(i)
	}
	return fmt.Errorf("send work to worker %s: %w", to.worker, sendError(err))
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
	r.freeFrame(r.waiting[i].frame)
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
			if l := r.waiting[i].lane; l != nil {
				l.wake() // its answer must not fill the socket
			}
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
