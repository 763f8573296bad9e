package transport

import (
	"time"

	"github.com/nats-io/nats.go"
)

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
	if k == kindAck {
		var a ack
		if r.in.decode(&a) == nil {
			r.acknowledge(from, &a)
		}
		return false
	}
	return r.decodeReply(r.in, k, reply) == nil
}

// decodeReply reads a reply to work after its head.
func (r *Requester) decodeReply(in *receiver, k kind, reply *Reply) error {
	switch k {
	case kindResult:
		result := r.newResult()
		if err := in.decode(result); err != nil {
			r.Recycle(result)
			return err
		}
		reply.Result, reply.Request, reply.Attempt = result, result.Request, result.Attempt
	case kindProgress:
		var p progress
		if err := in.decode(&p); err != nil {
			return err
		}
		reply.Request, reply.Attempt = p.request, p.attempt
	case kindError:
		var f failure
		if err := in.decode(&f); err != nil {
			return err
		}
		reply.Request, reply.Attempt = f.request, f.attempt
		reply.Err = &RemoteError{Worker: reply.Worker, Code: f.code, Message: f.message}
	default:
		return in.count(unexpected(k))
	}
	return nil
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

// lost answers everything that waits for an answer over NATS, at once instead of after SilenceLimit.
func (r *Requester) lost() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; i < len(r.waiting); {
		w := r.waiting[i]
		if w.lane != nil {
			i++
			continue
		}
		r.remove(i)
		r.put(w.replies, Reply{Worker: w.route.worker, Request: w.request, Err: ErrConnectionLost}, true)
	}
}
