package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// GenerateError is an error that the coordinator gave as the end of an answer.
type GenerateError struct{ Message string }

func (e *GenerateError) Error() string { return "coordinator: " + e.Message }

// lostError says that an answer was cut off and can be asked for again.
type lostError struct {
	cause    error
	taken    bool   // a coordinator had begun to answer
	instance string // of that one, to be passed over the next time; "" if none
}

func (e *lostError) Error() string { return e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }

// goneNotes: a coordinator that is not there for so many signs of life in a row has ended. One is not enough: it may come back from a NATS
// server's restart a little later than the client.
const goneNotes = 2

// answerTicks is how long a coordinator may take to say that it has a request, beside the time that sending it may need.
const (
	answerTicks    = 3
	bytesOfOneTick = 1 << 20
)

// attempt is one submission of a request, and the answer of the coordinator that answers first.
type attempt struct {
	conn     *Conn
	cluster  string
	inbox    string
	passOver string // a coordinator that failed before: another one is wanted if there is one
	messages chan *nats.Msg
	sender   *sender
	in       *receiver

	bound      bool   // an answer has begun
	control    string // where its coordinator takes signs of life
	instance   string
	number     uint64 // of the next event
	patience   int    // ticks for the first event
	silent     int    // ticks; a process that was stopped for a while doesn't blame the other side
	gone       int    // notes in a row that the coordinator is not there, one a tick at most
	goneAt     int    // what silent was at the last one
	passedOver int    // ticks since the coordinator that failed before has answered; 0: it has not
	others     map[string]bool
	foreign    error // what answered speaks another version of the protocol
	malformed  atomic.Uint64
}

func newAttempt(c *Conn, cluster, passOver string) *attempt {
	a := &attempt{conn: c, cluster: cluster, inbox: c.NewInbox(cluster), passOver: passOver, messages: make(chan *nats.Msg, receiveCapacity),
		sender: newSender(c), others: map[string]bool{}}
	a.in = newReceiver(&a.malformed)
	return a
}

// run submits a request and passes events on. A *lostError: it may be submitted again.
func (a *attempt) run(ctx context.Context, q *GenerateRequest, event func(*GenerateEvent) error) error {
	subscription, err := a.conn.subscribe(a.inbox, a.messages)
	if err != nil {
		return err
	}
	defer subscription.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	if err := a.sender.send(generateSubject(a.cluster), a.inbox, kindGenerate, q); err != nil {
		if problem := (*malformedError)(nil); errors.As(err, &problem) {
			return fmt.Errorf("the request: %w", err)
		}
		return a.lost(fmt.Errorf("send the request: %w", sendError(err)))
	}
	if err := a.conn.unsent(generateSubject(a.cluster)); err != nil {
		return fmt.Errorf("send the request: %w", err)
	}
	a.patience = answerTicks + len(a.sender.wire.buf)/bytesOfOneTick
	done, err := a.listen(ctx, event)
	if !done {
		a.cancel(a.control)
	}
	return err
}

func (a *attempt) lost(cause error) error {
	return &lostError{cause: cause, taken: a.bound, instance: a.instance}
}

// listen passes events on; done says that the coordinator knows of the end.
func (a *attempt) listen(ctx context.Context, event func(*GenerateEvent) error) (done bool, err error) {
	tick := time.NewTicker(ProgressInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
			if err := a.tick(); err != nil {
				return false, err
			}
			if a.control != "" {
				_ = a.sender.send(a.control, a.inbox, kindAlive, empty{}) // another one follows; the inbox is for NATS' note that nobody takes it
			}
		case m := <-a.messages:
			e, err := a.take(m)
			if err != nil {
				return false, err
			}
			if e == nil {
				continue
			}
			if e.Done && e.Retry {
				return true, a.lost(errors.New(e.Error))
			}
			if err := event(e); err != nil {
				return e.Done, err
			}
			if e.Done && e.Error != "" {
				return true, &GenerateError{e.Error}
			}
			if e.Done {
				return true, nil
			}
		}
	}
}

// tick is one second without more.
func (a *attempt) tick() error {
	a.silent++
	switch {
	case a.bound && a.silent > silentTicks:
		return a.lost(fmt.Errorf("the coordinator has been silent for %s", SilenceLimit))
	case !a.bound && a.passedOver > 0:
		if a.passedOver++; a.passedOver > 2 { // there is no other one
			return a.lost(errors.New("no other coordinator answers"))
		}
	case !a.bound && a.silent > a.patience && a.foreign != nil:
		return fmt.Errorf("the coordinator's answer: %w", a.foreign)
	case !a.bound && a.silent > a.patience:
		return a.lost(fmt.Errorf("no coordinator has answered within %s", time.Duration(a.patience)*ProgressInterval))
	}
	return nil
}

// take decodes an event; nil if it says nothing, or is not of the answer that came first.
func (a *attempt) take(m *nats.Msg) (*GenerateEvent, error) {
	if noResponders(m) {
		if !a.bound {
			return nil, a.lost(ErrNoCoordinator)
		}
		if a.gone == 0 || a.silent > a.goneAt {
			a.gone, a.goneAt = a.gone+1, a.silent
		}
		if a.gone == goneNotes {
			return nil, a.lost(errors.New("the coordinator is no longer connected to NATS"))
		}
		return nil, nil
	}
	if a.others[m.Reply] || a.bound && m.Reply != a.control {
		a.refuse(m.Reply)
		return nil, nil
	}
	k, err := a.in.frame(m.Reply, m.Data)
	if err == nil && k == 0 {
		return nil, nil
	}
	if err == nil && k != kindEvent {
		err = unexpected(k)
	}
	f := eventFrame{event: &GenerateEvent{}}
	if err == nil {
		err = a.in.decode(&f)
	}
	switch {
	case err != nil && strings.HasPrefix(m.Reply, generateStreams(a.cluster, "")):
		return nil, fmt.Errorf("the coordinator's answer: %w", err)
	case err != nil:
		if other := (*versionError)(nil); errors.As(err, &other) {
			a.foreign = other
		}
		return nil, nil // no coordinator's: counted
	}
	e := f.event
	if !a.bound {
		if f.number == 0 && a.passOver != "" && e.Instance == a.passOver {
			a.refuse(m.Reply)
			a.passedOver = max(a.passedOver, 1)
			return nil, nil
		}
		a.bound, a.control, a.instance = true, m.Reply, e.Instance
	}
	a.silent, a.gone = 0, 0
	if f.number != a.number {
		return nil, a.lost(fmt.Errorf("event %d of the answer came where %d was expected; the connection lost some", f.number, a.number))
	}
	a.number++
	if e.Text == "" && len(e.Tokens) == 0 && !e.Done {
		return nil, nil
	}
	return e, nil
}

// refuse tells another coordinator that answers, too, that it need not.
func (a *attempt) refuse(control string) {
	if !a.others[control] {
		a.others[control] = true
		if control != "" {
			_ = a.sender.send(control, "", kindCancel, empty{}) // if it is lost, the coordinator finds the inbox gone
		}
	}
}

// cancel tells the coordinator that nobody listens any more.
func (a *attempt) cancel(control string) {
	if control == "" {
		return // it will find the inbox gone
	}
	ctx, stop := context.WithTimeout(context.Background(), ProgressInterval)
	defer stop()
	_ = a.sender.send(control, "", kindCancel, empty{}) // if it is lost, the coordinator finds the inbox gone
	_ = a.conn.Flush(ctx)
}
