package transport

import "fmt"

// kind is what a frame holds. Numbers are append-only.
type kind uint64

const (
	kindPart kind = iota + 1
	kindWork
	kindResult
	kindProgress
	kindError
	kindAssign
	kindRefuse
	kindDrain
	kindAck
	kindBeat
	kindCoordinator
	kindGenerate
	kindEvent
	kindAlive
	kindCancel
	kindProbe
	kindHello
)

// message is anything that a frame can hold: fields writes or reads all of its fields.
type message interface{ fields(w *wire) }

// versionError says that the other side speaks another version of the protocol.
type versionError struct{ theirs uint64 }

func (e *versionError) Error() string {
	return fmt.Sprintf("protocol version %d here, %d in the message", ProtocolVersion, e.theirs)
}

// encode appends a frame to w, which is emptied first.
func encode(w *wire, k kind, m message) error {
	w.buf = w.buf[:0]
	return encodeMore(w, k, m)
}

// encodeMore appends a frame to what w holds.
func encodeMore(w *wire, k kind, m message) error {
	w.reading, w.err = false, nil
	w.array("frame", 3)
	w.appendUint(ProtocolVersion)
	w.appendUint(uint64(k))
	m.fields(w)
	return w.err
}

// open reads a frame's head; w is then at the message. The version comes first in every version of the protocol; with a
// *versionError the kind is what it would be in this version.
func open(w *wire, frame []byte) (kind, error) {
	w.reading, w.err, w.buf = true, nil, frame
	n, version, k := 0, uint64(0), uint64(0)
	w.count(&n, "frame", 1, 1<<8)
	w.uint64(&version, "version", 1<<32)
	w.uint64(&k, "kind", 1<<16)
	switch {
	case w.err != nil:
		return 0, w.err
	case version != ProtocolVersion:
		return kind(k), &versionError{version}
	case n != 3:
		w.fail("frame", "3 fields expected, found %d", n)
	}
	return kind(k), w.err
}

// decode reads the message after open.
func decode(w *wire, m message) error {
	m.fields(w)
	w.end()
	return w.err
}

// unexpected is the error of a frame of a kind that has no meaning where it arrived.
func unexpected(k kind) error {
	return &malformedError{fmt.Sprintf("kind: %d is not expected on this subject", k)}
}

// code is the error code of a frame that could not be decoded.
func code(err error) ErrorCode {
	if _, ok := err.(*versionError); ok {
		return CodeVersion
	}
	return CodeMalformed
}
