package transport

import "context"

// Reply is what came back for a Work: exactly one of Result, Err, or neither (progress: the worker is alive).
type Reply struct {
	Worker  string
	Request uint64
	Attempt uint32
	Result  *Result
	Err     error // *RemoteError, or ErrNoWorker when nobody listens on the subject
}

// ErrNoWorker says that the worker's process or connection is gone.
var ErrNoWorker error

// Requester is the coordinator's end: it sends work and control messages and receives replies in one mux inbox.
type Requester struct{}

// NewRequester subscribes the inbox; Close ends it.
func NewRequester(c *Conn, cluster string) (*Requester, error) { panic("skeleton") }

// Close unsubscribes and ends its goroutine.
func (r *Requester) Close() { panic("skeleton") }

// Send sends work (in chunks where needed); replies with its request id go to replies until Forget. replies needs room: a full
// channel loses progress, never results. (Request, Worker) must be unique among the outstanding.
func (r *Requester) Send(worker string, w *Work, replies chan<- Reply) error { panic("skeleton") }

// Forget drops whatever comes later for a request id, of all workers.
func (r *Requester) Forget(request uint64) { panic("skeleton") }

// Assign, Refuse and Drain wait for the worker's acknowledgement (of receipt; loading shows in beats).
func (r *Requester) Assign(ctx context.Context, worker string, m *Assign) error { panic("skeleton") }

// Refuse tells a worker why it can't take part.
func (r *Requester) Refuse(ctx context.Context, worker, instance string, m *Refuse) error {
	panic("skeleton")
}

// Drain tells a worker to leave.
func (r *Requester) Drain(ctx context.Context, worker string) error { panic("skeleton") }

// SubscribeBeats calls f for each beat of the cluster, in order, until stop is called.
func (r *Requester) SubscribeBeats(f func(*Beat)) (stop func(), err error) { panic("skeleton") }

// Malformed counts messages that could not be decoded since the start, on this end.
func (r *Requester) Malformed() uint64 { panic("skeleton") }
