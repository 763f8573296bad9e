package transport

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// GenerateError is an error that the coordinator gave as the end of an answer.
type GenerateError struct{ Message string }

func (e *GenerateError) Error() string { return "coordinator: " + e.Message }

// Generate is the client; event is called for each event that says something, the last one has Done, and its Error is returned
// as *GenerateError too. ctx ended, or an error of event: a cancel is sent. ErrNoCoordinator: nobody answers.
func Generate(ctx context.Context, c *Conn, cluster string, q *GenerateRequest, event func(*GenerateEvent) error) error {
	if !ValidName(cluster) {
		return fmt.Errorf("cluster name %q: valid are 1 to 64 of A-Z a-z 0-9 _ -", cluster)
	}
	g := &generateClient{conn: c, inbox: c.NewInbox(cluster), messages: make(chan *nats.Msg, receiveCapacity), sender: newSender(c)}
	subscription, err := c.subscribe(g.inbox, g.messages)
	if err != nil {
		return err
	}
	defer subscription.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	if err := g.sender.send(generateSubject(cluster), g.inbox, kindGenerate, q); err != nil {
		return fmt.Errorf("send the request: %w", sendError(err))
	}
	done, err := g.listen(ctx, event)
	if !done {
		g.cancel()
	}
	return err
}

type generateClient struct {
	conn     *Conn
	inbox    string
	control  string // where the coordinator takes signs of life, "" until it has answered
	messages chan *nats.Msg
	sender   *sender
	number   uint64 // of the next event
}

// listen passes events on; done says that the coordinator knows of the end.
func (g *generateClient) listen(ctx context.Context, event func(*GenerateEvent) error) (done bool, err error) {
	var malformed atomic.Uint64
	in := newReceiver(&malformed)
	tick := time.NewTicker(ProgressInterval)
	defer tick.Stop()
	silent := 0 // ticks; a process that was stopped for a while doesn't blame the other side
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
			if silent++; silent > silentTicks {
				return false, fmt.Errorf("the coordinator has been silent for %s", SilenceLimit)
			}
			if g.control != "" {
				_ = g.sender.send(g.control, "", kindAlive, empty{}) // another one follows
			}
		case m := <-g.messages:
			if noResponders(m) {
				return true, ErrNoCoordinator
			}
			silent = 0
			e, err := g.take(in, m)
			if err != nil {
				return false, err
			}
			if e == nil {
				continue
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

// take decodes an event; nil if it is only a sign of life or a part of one.
func (g *generateClient) take(in *receiver, m *nats.Msg) (*GenerateEvent, error) {
	k, err := in.frame(m.Subject, m.Data)
	if err == nil && k == 0 {
		return nil, nil
	}
	if err == nil && k != kindEvent {
		err = unexpected(k)
	}
	f := eventFrame{event: &GenerateEvent{}}
	if err == nil {
		err = in.decode(&f)
	}
	if err != nil {
		return nil, fmt.Errorf("the coordinator's answer: %w", err)
	}
	if f.number != g.number {
		return nil, fmt.Errorf("the coordinator's answer: event %d came where %d was expected; the connection lost some", f.number, g.number)
	}
	g.number++
	if m.Reply != "" {
		g.control = m.Reply
	}
	e := f.event
	if e.Text == "" && len(e.Tokens) == 0 && !e.Done {
		return nil, nil
	}
	return e, nil
}

// cancel tells the coordinator that nobody listens any more.
func (g *generateClient) cancel() {
	if g.control == "" {
		return // it will find the inbox gone
	}
	ctx, stop := context.WithTimeout(context.Background(), ProgressInterval)
	defer stop()
	_ = g.sender.send(g.control, "", kindCancel, empty{}) // if it is lost, the coordinator finds the inbox gone
	_ = g.conn.Flush(ctx)
}
