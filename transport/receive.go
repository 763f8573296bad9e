package transport

import (
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// receiver turns the NATS messages of one goroutine into frames: heads checked, parts assembled.
type receiver struct {
	wire      wire
	part      part
	parts     *assembler
	malformed *atomic.Uint64
}

func newReceiver(malformed *atomic.Uint64) *receiver {
	return &receiver{parts: newAssembler(), malformed: malformed}
}

// frame gives the kind of a message, r.wire is then at its content (until the next call). Kind 0 without an error: a part that is
// not the last.
func (r *receiver) frame(source string, data []byte) (kind, error) {
	k, err := open(&r.wire, data)
	if err == nil && k == kindPart {
		if err = decode(&r.wire, &r.part); err != nil {
			return 0, r.count(err)
		}
		var whole []byte
		whole, err = r.parts.add(source, &r.part, time.Now())
		if err != nil || whole == nil {
			return 0, r.count(err)
		}
		k, err = open(&r.wire, whole)
		if err == nil && k == kindPart {
			err = &malformedError{"part: holds another part"}
		}
		r.parts.release(whole) // not written to before the next part
	}
	return k, r.count(err)
}

// whole is frame for what comes in one piece.
func (r *receiver) whole(data []byte) (kind, error) {
	k, err := open(&r.wire, data)
	return k, r.count(err)
}

// decode reads the content.
func (r *receiver) decode(m message) error { return r.count(decode(&r.wire, m)) }

func (r *receiver) count(err error) error {
	if err != nil {
		r.malformed.Add(1)
	}
	return err
}

// noResponders says that a message is the server's note that nobody listens on the subject of a request.
func noResponders(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header != nil && m.Header.Get("Status") == "503"
}
