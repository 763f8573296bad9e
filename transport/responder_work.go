package transport

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
)

// receiveWork is one of two goroutines that take work as it arrives. One that finds nothing running computes it at once,
// without a hand-over to another goroutine, and then all that was queued meanwhile by the other.
func (r *Responder) receiveWork() {
	defer r.done.Done()
	out := newSender(r.conn)
	for {
		r.receiving.Lock() // also while waiting: so order of arrival is kept
		m := <-r.work
		if m == nil {
			r.receiving.Unlock()
			return
		}
		j := r.takeWork(out, m)
		r.receiving.Unlock()
		for ; j != nil; j = r.queue.finish() {
			r.answer(out, j)
		}
	}
}

// takeWork puts a message into the queue, and gives it if it is to be computed now.
func (r *Responder) takeWork(out *sender, m *nats.Msg) *job {
	arrived := time.Now()
	r.heard.message(m.Reply)
	r.decoding.Lock()
	defer r.decoding.Unlock()
	in := r.in
	k, err := in.frame(m.Reply, m.Data)
	if err == nil && k == 0 {
		return nil
	}
	if err == nil && k != kindWork {
		err = in.count(unexpected(k))
	}
	if err != nil {
		fail(out, m.Reply, workID{}, code(err), err)
		return nil
	}
	j := r.queue.spare()
	j.reply, j.arrived = m.Reply, arrived
	err = in.decode(&j.frame)
	switch id := (workID{j.work.Request, j.work.Attempt}); {
	case err != nil:
		fail(out, m.Reply, id, code(err), err)
	case j.frame.target != "" && j.frame.target != r.instance:
		// For another holder of this id.
	case m.Reply == "":
		in.count(&malformedError{"reply: none given"})
	default:
		first, refused := r.queue.put(j)
		if first {
			return j
		}
		if refused == nil {
			return nil
		}
		fail(out, m.Reply, id, refused.Code, errors.New(refused.Message))
	}
	r.queue.recycle(j)
	return nil
}

// report is the goroutine that reports progress of the Works that run or wait.
func (r *Responder) report() {
	defer r.done.Done()
	out := newSender(r.conn)
	tick := time.NewTicker(ProgressInterval)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			r.queue.each(func(id workID, reply string) {
				_ = out.send(reply, "", kindProgress, &progress{id}) // a lost report is followed by another
			})
			r.decoding.Lock()
			r.malformed.Add(uint64(r.in.parts.expire(now)))
			r.decoding.Unlock()
		case <-r.closing:
			return
		}
	}
}

// fail answers with an error.
func fail(out *sender, reply string, id workID, c ErrorCode, err error) {
	if reply != "" {
		_ = out.send(reply, "", kindError, &failure{id, c, err.Error()}) // the other side notices the silence
	}
}

func (r *Responder) answer(out *sender, j *job) {
	started := time.Now()
	result, err := r.callWork(&j.work)
	id := workID{j.work.Request, j.work.Attempt}
	if err == nil {
		result.Request, result.Attempt = id.request, id.attempt
		result.QueueTime = started.Sub(j.arrived).Nanoseconds()
		if result.ComputeTime == 0 {
			result.ComputeTime = time.Since(started).Nanoseconds()
		}
		err = out.send(j.reply, "", kindResult, result)
	}
	if err == nil {
		return
	}
	c := CodeInternal
	if remote := (*RemoteError)(nil); errors.As(err, &remote) {
		c, err = remote.Code, errors.New(remote.Message)
	}
	fail(out, j.reply, id, c, err)
}

// callWork calls the handler; a panic in it is an error of this work only.
func (r *Responder) callWork(w *Work) (result *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	result, err = r.handler.Work(r.ctx, w)
	if err == nil && result == nil {
		err = errors.New("the handler gave no result")
	}
	return result, err
}
