package transport

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
)

// receiveControl is the goroutine of control messages and the coordinators' beats.
func (r *Responder) receiveControl() {
	defer r.done.Done()
	in, out := newReceiver(&r.malformed), newSender(r.conn)
	tick := time.NewTicker(maxAssemblyAge)
	defer tick.Stop()
	coordinators := coordinatorSubject(r.cluster)
	for {
		select {
		case m := <-r.control:
			if m.Subject == coordinators {
				r.takeCoordinator(in, m)
			} else {
				r.takeControl(in, out, m)
			}
		case now := <-tick.C:
			r.malformed.Add(uint64(in.parts.expire(now)))
		case <-r.closing:
			return
		}
	}
}

func (r *Responder) takeCoordinator(in *receiver, m *nats.Msg) {
	k, err := in.frame(m.Subject, m.Data)
	if err != nil || k == 0 {
		return
	}
	if k != kindCoordinator {
		in.count(unexpected(k))
		return
	}
	var b CoordinatorBeat
	if in.decode(&b) == nil {
		r.heard.beat(b.Instance)
		_ = guard(func() error { r.handler.CoordinatorBeat(&b); return nil })
	}
}

func (r *Responder) takeControl(in *receiver, out *sender, m *nats.Msg) {
	k, err := in.frame(m.Reply, m.Data)
	if err == nil && k == 0 {
		return
	}
	if err == nil && k == kindProbe {
		_ = in.decode(empty{}) // it was asked of NATS, not of us
		return
	}
	var c control
	// A refusal is read in every version.
	if _, other := err.(*versionError); err == nil || other && k == kindRefuse {
		err = nil
		switch k {
		case kindAssign:
			c.message = &Assign{}
		case kindRefuse:
			c.message = &Refuse{}
		case kindDrain:
			c.message = &Drain{}
		default:
			err = in.count(unexpected(k))
		}
		if err == nil {
			err = in.decode(&c)
		}
	}
	if err != nil {
		acknowledge(out, m.Reply, &ack{c.number, code(err), err.Error()})
		return
	}
	if c.target != "" && c.target != r.instance {
		return // for another holder of this id
	}
	answer := &ack{number: c.number}
	if err := r.callControl(c.message, m.Reply); err != nil {
		answer.code, answer.message = CodeInternal, err.Error()
		if remote := (*RemoteError)(nil); errors.As(err, &remote) {
			answer.code, answer.message = remote.Code, remote.Message
		}
	}
	acknowledge(out, m.Reply, answer)
}

func acknowledge(out *sender, reply string, a *ack) {
	if reply != "" {
		_ = out.send(reply, "", kindAck, a) // the other side's deadline notices
	}
}

// callControl calls the handler.
func (r *Responder) callControl(m message, reply string) error {
	return guard(func() error {
		switch m := m.(type) {
		case *Assign:
			if err := r.handler.Assign(r.ctx, m); err != nil {
				return err
			}
			r.heard.assigned(m.Coordinator, reply)
		case *Refuse:
			r.handler.Refused(m.Reason)
		case *Drain:
			r.handler.Drain()
		}
		return nil
	})
}

// guard makes a panic of the handler an error of the message that it was called for.
func guard(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return call()
}
