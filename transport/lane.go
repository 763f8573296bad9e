package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A lane is a unix stream socket between a coordinator and a worker of one host. It carries the same frames as NATS, each behind
// its length (uint32, little-endian), whole: there are no parts. Work goes one way; results, progress and errors come back.
// Everything else stays on NATS, and so does the tensor traffic once a lane is broken.

// Names of the lanes, as in --lane.
const (
	LaneNATS  = "nats"
	LaneLocal = "local"
)

// LaneOffer says in a worker's beat where its lane listens; the zero value: there is none.
type LaneOffer struct {
	Host    string // machine and boot: only there the address means anything
	Address string // of the socket
	Secret  string // random: only who reads the cluster's beats knows it
}

const (
	laneHead      = 4                // bytes in front of a frame
	laneBuffer    = 64 << 10         // bytes that are read ahead; more is taken only as it arrives
	laneHello     = 4 << 10          // bytes of a frame before the handshake is done
	laneHandshake = 2 * SilenceLimit // for dialing and both sides' words: it is tried once, and either side may have far more to do than CPUs
	maxLanes      = 16               // connections of one worker
)

// errLane says that a lane is broken, not the message.
var errLane = errors.New("the local lane is broken")

// lane is one end of a connection.
type lane struct {
	conn  *net.UnixConn
	reply string // subject of the coordinator that uses it: answers go there if the lane breaks

	ended chan struct{} // closed with the connection
	once  sync.Once
	turns *relay        // at a worker: of its receivers
	arm   chan struct{} // at a coordinator: has room for one: the lane's own goroutine is to read
	owed  atomic.Int32  // at a coordinator: requests without a final answer

	receiving sync.Mutex // at a coordinator: of what follows
	readUntil time.Time  // deadline that is set for reading; zero: none
	in        *receiver
	limit     int // bytes of a frame
	buf       []byte
	from, to  int // what was read and not taken
	used      int // bytes of the last frame

	sending sync.Mutex
	out     wire
	until   time.Time // deadline that is set for writing
}

func newLane(conn *net.UnixConn, in *receiver) *lane {
	return &lane{conn: conn, in: in, limit: laneHello, buf: make([]byte, laneBuffer), ended: make(chan struct{}),
		turns: newRelay(), arm: make(chan struct{}, 1)}
}

// next waits for a frame, which is valid until the next call.
func (l *lane) next() ([]byte, error) {
	l.from, l.used = l.from+l.used, 0
	for {
		have, need := l.buf[l.from:l.to], laneHead
		if len(have) >= laneHead {
			n := binary.LittleEndian.Uint32(have)
			if n == 0 || uint64(n) > uint64(l.limit) {
				return nil, l.in.count(&malformedError{fmt.Sprintf("frame of %d bytes; 1 to %d are valid", n, l.limit)})
			}
			if need += int(n); len(have) >= need {
				l.used = need
				return have[laneHead:need], nil
			}
		}
		l.makeRoom(need)
		n, err := l.conn.Read(l.buf[l.to:])
		if l.to += n; n == 0 && err != nil {
			return nil, err
		}
	}
}

// makeRoom makes room behind what was read for a message of need bytes, but for little more than as much again as has come: a length
// alone takes no memory.
func (l *lane) makeRoom(need int) {
	have := l.to - l.from
	need = min(need, max(laneBuffer, 2*have))
	switch {
	case have == 0 && len(l.buf) > maxSpare:
		l.buf = make([]byte, laneBuffer)
	case have != 0 && len(l.buf)-l.from >= need && l.to < len(l.buf):
		return
	case len(l.buf) < need:
		larger := make([]byte, need)
		copy(larger, l.buf[l.from:l.to])
		l.buf = larger
	default:
		copy(l.buf, l.buf[l.from:l.to])
	}
	l.from, l.to = 0, have
}

// encodeLane makes a frame with its length in front.
func encodeLane(w *wire, k kind, m message) error {
	w.buf = append(w.buf[:0], 0, 0, 0, 0)
	if err := encodeMore(w, k, m); err != nil {
		return err
	}
	n := len(w.buf) - laneHead
	if n > MaxMessage {
		return fmt.Errorf("message of %d bytes is above the limit %d", n, MaxMessage)
	}
	binary.LittleEndian.PutUint32(w.buf, uint32(n))
	return nil
}

// send encodes and writes a message. After an error that is errLane the connection is closed.
func (l *lane) send(k kind, m message) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	if err := encodeLane(&l.out, k, m); err != nil {
		return err
	}
	return l.writeLocked(l.out.buf)
}

// write writes a frame of encodeLane.
func (l *lane) write(frame []byte) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	return l.writeLocked(frame)
}

func (l *lane) writeLocked(frame []byte) error {
	// The other side always reads; one that doesn't for so long is stopped. The deadline is renewed seldom.
	now := time.Now()
	if l.until.Sub(now) < SilenceLimit {
		l.until = now.Add(2 * SilenceLimit)
		_ = l.conn.SetWriteDeadline(l.until) // fails only on a closed connection
	}
	if _, err := l.conn.Write(frame); err != nil {
		l.close()
		return fmt.Errorf("%w: %w", errLane, err)
	}
	return nil
}

// close ends the connection: its readers get an error.
func (l *lane) close() {
	l.once.Do(func() {
		_ = l.conn.Close()
		close(l.ended)
	})
}

// wake makes the lane's own goroutine read what is owed.
func (l *lane) wake() {
	select {
	case l.arm <- struct{}{}:
	default:
	}
}

// hello is a coordinator's first word on a lane.
type hello struct {
	secret, worker, instance string
	reply                    string
}

func (m *hello) fields(w *wire) {
	w.array("hello", 4)
	w.string(&m.secret, "secret", laneHello)
	w.string(&m.worker, "worker", laneHello)
	w.string(&m.instance, "instance", laneHello)
	w.string(&m.reply, "reply", laneHello)
}

func (m *LaneOffer) fields(w *wire) {
	w.array("lane", 3)
	w.string(&m.Host, "lane host", maxText)
	w.string(&m.Address, "lane address", maxText)
	w.string(&m.Secret, "lane secret", maxText)
}
