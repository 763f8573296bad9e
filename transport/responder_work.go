package transport

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
)

// receiveWork is one of two goroutines that take work as it arrives, in turns. One that finds nothing running computes it at once,
// without a hand-over to another goroutine, and then all that was queued meanwhile by the other.
func (r *Responder) receiveWork() {
	defer r.done.Done()
	out := newSender(r.conn)
	for {
		select {
		case <-r.turns.relief:
		case <-r.closing:
			return
		}
		for mine := true; mine; {
			var m *nats.Msg
			select {
			case m = <-r.work:
			case <-r.closing:
				return
			}
			if j := r.takeWork(out, m); j != nil {
				mine = r.compute(r.turns, out, j)
			}
		}
	}
}

// compute computes a job and all that were queued meanwhile; true: it is still the caller's turn to receive.
func (r *Responder) compute(turns *relay, out *sender, j *job) bool {
	turns.leave()
	for ; j != nil; j = r.queue.finish() {
		r.answer(out, j)
	}
	return turns.back()
}

// takeWork puts a message into the queue, and gives it if it is to be computed now.
func (r *Responder) takeWork(out *sender, m *nats.Msg) *job {
	arrived := time.Now()
	r.heard.message(m.Reply)
	r.decoding.Lock()
	defer r.decoding.Unlock()
	k, err := r.in.frame(m.Reply, m.Data)
	if err == nil && k == 0 {
		return nil
	}
	j, _ := r.takeFrame(out, r.in, address{reply: m.Reply}, k, err, arrived) // told the sender and the counter
	return j
}

// takeFrame puts work into the queue, and gives it if it is to be computed now. k and err are what its head said. The error is
// that of a frame that can't be decoded, which was answered with it.
func (r *Responder) takeFrame(out *sender, in *receiver, to address, k kind, err error, arrived time.Time) (*job, error) {
	if err == nil && k != kindWork {
		err = in.count(unexpected(k))
	}
	if err != nil {
		fail(out, to, workID{}, code(err), err)
		return nil, err
	}
	j := r.queue.spare()
	j.to, j.arrived = to, arrived
	err = in.decode(&j.frame)
	switch id := (workID{j.work.Request, j.work.Attempt}); {
	case err != nil:
		fail(out, to, id, code(err), err)
	case j.frame.target != "" && j.frame.target != r.instance:
		// For another holder of this id.
	case to == address{}:
		in.count(&malformedError{"reply: none given"})
	default:
		first, refused := r.queue.put(j)
		if first {
			return j, nil
		}
		if refused == nil {
			return nil, nil
		}
		fail(out, to, id, refused.Code, errors.New(refused.Message))
	}
	r.queue.recycle(j)
	return nil, err
}

// report is the goroutine that reports progress of the Works that run or wait.
func (r *Responder) report() {
	defer r.done.Done()
	out := newSender(r.conn)
	tick := time.NewTicker(ProgressInterval)
	defer tick.Stop()
	type underWay struct {
		id workID
		to address
	}
	var running []underWay
	for {
		select {
		case now := <-tick.C:
			running = running[:0]
			r.queue.each(func(id workID, to address) { running = append(running, underWay{id, to}) })
			for _, u := range running {
				_ = u.to.send(out, kindProgress, &progress{u.id}) // a lost report is followed by another
			}
			r.turns.relieve()
			r.lanes.relieve()
			r.decoding.Lock()
			r.malformed.Add(uint64(r.in.parts.expire(now)))
			r.decoding.Unlock()
		case <-r.closing:
			return
		}
	}
}

// fail answers with an error.
func fail(out *sender, to address, id workID, c ErrorCode, err error) {
	if to != (address{}) {
		_ = to.send(out, kindError, &failure{id, c, err.Error()}) // the other side notices the silence
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
		err = j.to.send(out, kindResult, result)
	}
	if err == nil {
		return
	}
	c := CodeInternal
	if remote := (*RemoteError)(nil); errors.As(err, &remote) {
		c, err = remote.Code, errors.New(remote.Message)
	}
	fail(out, j.to, id, c, err)
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
