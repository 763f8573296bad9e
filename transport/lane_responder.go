package transport

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// laneReceivers is one that computes and one that receives meanwhile, as for NATS.
const laneReceivers = 2

// laneServer is a worker's listening socket and its connections.
type laneServer struct {
	mu       sync.Mutex
	listener *net.UnixListener
	secret   string
	log      func(format string, args ...any)
	open     map[*lane]bool
	closed   bool
}

// OfferLane opens a socket on which a coordinator of this host may send work, and gives what the beats must say of it. log is told of
// connections that were ended because of what came over them. An error: the worker stays on NATS.
func (r *Responder) OfferLane(log func(format string, args ...any)) (LaneOffer, error) {
	host, err := laneHost()
	if err != nil {
		return LaneOffer{}, fmt.Errorf("local lane: %w", err)
	}
	listener, address, err := listenLane()
	if err != nil {
		return LaneOffer{}, fmt.Errorf("local lane: %w", err)
	}
	s := &r.lanes
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.listener != nil {
		listener.Close()
		return LaneOffer{}, errors.New("local lane: offered already, or closed")
	}
	s.listener, s.secret, s.log, s.open = listener, rand.Text(), log, map[*lane]bool{}
	r.done.Add(1)
	go r.acceptLanes(listener)
	return LaneOffer{Host: host, Address: address, Secret: s.secret}, nil
}

func (r *Responder) acceptLanes(listener *net.UnixListener) {
	defer r.done.Done()
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			select {
			case <-r.closing:
			default:
				r.lanes.log("the local lane takes no more connections: %v", err)
			}
			return
		}
		l := newLane(conn, newReceiver(&r.malformed))
		if !r.lanes.add(l) {
			l.close()
			continue
		}
		r.done.Add(1)
		go r.serveLane(l)
	}
}

func (s *laneServer) add(l *lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.open) >= maxLanes {
		return false
	}
	s.open[l] = true
	return true
}

// remove closes a connection; true: it was open until now.
func (s *laneServer) remove(l *lane) bool {
	l.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.open[l] && !s.closed
	delete(s.open, l)
	return was
}

// relieve is as relay.relieve, for all connections.
func (s *laneServer) relieve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.open {
		l.turns.relieve()
	}
}

func (s *laneServer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.listener != nil {
		s.listener.Close()
	}
	for l := range s.open {
		l.close()
	}
}

// serveLane shakes hands and receives.
func (r *Responder) serveLane(l *lane) {
	if err := r.welcome(l); err != nil {
		r.endLane(l, err)
		r.done.Done()
		return
	}
	r.done.Add(laneReceivers - 1)
	for range laneReceivers - 1 {
		go r.receiveLane(l)
	}
	r.receiveLane(l)
}

// welcome takes a coordinator's hello.
func (r *Responder) welcome(l *lane) error {
	if err := checkPeer(l.conn); err != nil {
		return err
	}
	if err := l.conn.SetReadDeadline(time.Now().Add(laneHandshake)); err != nil {
		return err
	}
	frame, err := l.next()
	if err != nil {
		return err
	}
	k, err := l.in.whole(frame)
	if err == nil && k != kindHello {
		err = l.in.count(unexpected(k))
	}
	var h hello
	if err == nil {
		err = l.in.decode(&h)
	}
	if err != nil {
		return err
	}
	answer := ack{}
	switch {
	case subtle.ConstantTimeCompare([]byte(h.secret), []byte(r.lanes.secret)) != 1:
		err = errors.New("the secret is wrong")
	case h.worker != r.worker || h.instance != r.instance:
		err = fmt.Errorf("it is meant for worker %s, instance %s", h.worker, h.instance)
	}
	if err != nil {
		answer.code, answer.message = CodeRefused, err.Error()
		_ = l.send(kindAck, &answer) // it is closed anyway
		return err
	}
	l.reply, l.limit = h.reply, MaxMessage
	if err := l.conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return l.send(kindAck, &answer)
}

// receiveLane is one of two goroutines that take a lane's work, as receiveWork.
func (r *Responder) receiveLane(l *lane) {
	defer r.done.Done()
	out := newSender(r.conn)
	for {
		select {
		case <-l.turns.relief:
		case <-l.ended:
			return
		}
		for mine := true; mine; {
			j, err := r.takeLane(out, l)
			if err != nil {
				r.endLane(l, err)
				return
			}
			if j != nil {
				mine = r.compute(l.turns, out, j)
			}
		}
	}
}

// takeLane waits for a frame. What can't be decoded is answered with an error and ends the connection.
func (r *Responder) takeLane(out *sender, l *lane) (*job, error) {
	frame, err := l.next()
	if err != nil {
		return nil, err
	}
	arrived := time.Now()
	r.heard.message(l.reply)
	k, err := l.in.whole(frame)
	return r.takeFrame(out, l.in, address{l.reply, l}, k, err, arrived)
}

// endLane closes a connection and says why, unless the coordinator just left.
func (r *Responder) endLane(l *lane, err error) {
	if r.lanes.remove(l) && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		r.lanes.log("a connection of the local lane is closed: %v", err)
	}
}

// address is where answers go.
type address struct {
	reply string
	lane  *lane // nil: NATS
}

// send answers over the lane that the work came from, or over NATS if that is broken.
func (a address) send(out *sender, k kind, m message) error {
	if a.lane != nil {
		if err := a.lane.send(k, m); err == nil || !errors.Is(err, errLane) {
			return err
		}
	}
	return out.send(a.reply, "", k, m)
}
