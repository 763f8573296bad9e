package transport

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// transferID names a message that travels in parts: random bytes of the sender, then its own count.
type transferID [16]byte

// part is a piece of a frame that is larger than the server's payload limit. One that is lost leaves the transfer to its age
// limit, and the request to its deadline.
type part struct {
	id           transferID
	index, count int
	total        int // bytes of the whole frame
	data         []byte
}

// partOverhead is at least what a part's frame has besides data.
const partOverhead = 64

func (m *part) fields(w *wire) {
	w.array("part", 5)
	id := m.id[:]
	w.bytes(&id, "transfer", len(m.id))
	if w.err == nil && len(id) != len(m.id) {
		w.fail("transfer", "%d bytes expected, found %d", len(m.id), len(id))
	}
	w.int(&m.count, "count", 1, MaxMessage)
	w.int(&m.index, "index", 0, m.count-1)
	w.int(&m.total, "total", 1, MaxMessage)
	if w.reading {
		m.data = w.takeBin("data") // aliases the frame
		return
	}
	w.bytes(&m.data, "data", MaxMessage)
}

// sender encodes and publishes frames, in parts where they are larger than the server allows. Not for concurrent use.
type sender struct {
	conn *Conn
	wire wire // the frame, reused
	part wire
	id   transferID
	sent uint64
}

func newSender(c *Conn) *sender {
	s := &sender{conn: c}
	rand.Read(s.id[:8])
	return s
}

// send publishes a message; reply may be "".
func (s *sender) send(subject, reply string, k kind, m message) error {
	if err := encode(&s.wire, k, m); err != nil {
		return err
	}
	return s.publish(subject, reply, s.wire.buf)
}

// publish publishes a frame, which is not kept.
func (s *sender) publish(subject, reply string, frame []byte) error {
	limit := s.conn.MaxPayload()
	if len(frame) <= limit {
		return s.conn.nats.PublishRequest(subject, reply, frame)
	}
	if len(frame) > MaxMessage {
		return fmt.Errorf("message of %d bytes is above the limit %d", len(frame), MaxMessage)
	}
	if limit < 2*partOverhead {
		return fmt.Errorf("the NATS server's max_payload of %d bytes is too small", limit)
	}
	s.sent++
	binary.LittleEndian.PutUint64(s.id[8:], s.sent)
	size := limit - partOverhead
	p := part{id: s.id, count: (len(frame) + size - 1) / size, total: len(frame)}
	for ; p.index < p.count; p.index++ {
		from := p.index * size
		p.data = frame[from:min(from+size, len(frame))]
		if err := encode(&s.part, kindPart, &p); err != nil {
			return err
		}
		if err := s.conn.nats.PublishRequest(subject, reply, s.part.buf); err != nil {
			return err
		}
	}
	return nil
}

// assembler puts parts together again, of several senders at once and in any order. Memory follows what really arrived. Not
// for concurrent use.
type assembler struct {
	limit     int64 // bytes of all unfinished frames
	held      int64
	transfers map[transferKey]*transfer
	spare     []byte // memory of a finished frame
}

type transferKey struct {
	source string
	id     transferID
}

type transfer struct {
	count, total int
	last         time.Time
	bytes        int
	pieces       map[int][]byte
}

// pieceOverhead is what keeping a piece costs besides its bytes.
const pieceOverhead = 128

func newAssembler() *assembler {
	return &assembler{limit: maxAssembly, transfers: map[transferKey]*transfer{}}
}

// add takes a part, which it keeps, and gives the frame once all have come, else nil. The frame is valid until release. source
// tells senders apart.
func (a *assembler) add(source string, p *part, now time.Time) ([]byte, error) {
	key := transferKey{source, p.id}
	t := a.transfers[key]
	if t == nil {
		if len(a.transfers) == maxTransfers {
			return nil, &malformedError{fmt.Sprintf("more than %d unfinished messages", maxTransfers)}
		}
		t = &transfer{count: p.count, total: p.total, pieces: map[int][]byte{}}
		a.transfers[key] = t
	}
	if problem := a.check(t, p); problem != "" {
		a.drop(key, t)
		return nil, &malformedError{fmt.Sprintf("part %d of %d (%d bytes of %d): %s", p.index, p.count, len(p.data), p.total, problem)}
	}
	t.pieces[p.index] = p.data
	t.bytes += len(p.data)
	t.last = now
	a.held += int64(len(p.data)) + pieceOverhead
	if len(t.pieces) < t.count {
		return nil, nil
	}
	a.drop(key, t)
	if t.bytes != t.total {
		return nil, &malformedError{fmt.Sprintf("%d parts make %d bytes of %d", t.count, t.bytes, t.total)}
	}
	frame := slices.Grow(a.spare[:0], t.total)
	a.spare = nil
	for i := range t.count {
		frame = append(frame, t.pieces[i]...)
	}
	return frame, nil
}

func (a *assembler) check(t *transfer, p *part) string {
	_, twice := t.pieces[p.index]
	switch {
	case p.count != t.count || p.total != t.total:
		return fmt.Sprintf("an earlier one was of %d (%d bytes)", t.count, t.total)
	case twice:
		return "came twice"
	case len(p.data) == 0:
		return "is empty"
	case t.bytes+len(p.data) > t.total:
		return "makes too many bytes"
	case a.held+int64(len(p.data))+pieceOverhead > a.limit:
		return fmt.Sprintf("unfinished messages would take more than %d bytes", a.limit)
	}
	return ""
}

// release gives the memory of an assembled frame back.
func (a *assembler) release(frame []byte) {
	if cap(frame) > cap(a.spare) && cap(frame) <= maxSpare {
		a.spare = frame
	}
}

func (a *assembler) drop(key transferKey, t *transfer) {
	delete(a.transfers, key)
	a.held -= int64(t.bytes) + int64(len(t.pieces))*pieceOverhead
}

// expire drops transfers whose last part is too old, and says how many.
func (a *assembler) expire(now time.Time) int {
	n := 0
	for key, t := range a.transfers {
		if now.Sub(t.last) > maxAssemblyAge {
			a.drop(key, t)
			n++
		}
	}
	return n
}
