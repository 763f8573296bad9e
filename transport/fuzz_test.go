package transport

import (
	"runtime/metrics"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// decodeAny decodes a frame as whatever it says that it is.
func decodeAny(frame []byte) (message, error) {
	var w wire
	k, err := open(&w, frame)
	if err != nil {
		return nil, err
	}
	for _, m := range messageKinds {
		if m.kind == k {
			into := m.empty()
			return into, decode(&w, into)
		}
	}
	return nil, unexpected(k)
}

// allocatedBy is how many bytes f allocates, or less than what others do at the same time. Small objects may be missed, as the
// runtime counts them late.
func allocatedBy(f func()) uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	f()
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before
}

// allocationFactor bounds what decoding may allocate, as a multiple of the frame: one byte of the wire becomes at most a Go
// string or slice head, or a machine integer.
const allocationFactor, allocationBase = 64, 64 << 10

// fuzz feeds frames of one kind: decoding never panics, never allocates more than a multiple of the frame, and what it takes can be
// encoded again and is then decoded to the same.
func fuzz(f *testing.F, name string) {
	var k messageKind
	for _, m := range messageKinds {
		if m.name == name {
			k = m
		}
	}
	for i := range 4 {
		var w wire
		if err := encode(&w, k.kind, rapid.Custom(k.draw).Example(i)); err != nil {
			f.Fatal(err)
		}
		f.Add(w.buf)
	}
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x93, ProtocolVersion, byte(k.kind), 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, frame []byte) {
		var r, w wire
		got, err := open(&r, frame)
		if err != nil || got != k.kind {
			return
		}
		m := k.empty()
		rest, allocated := r, uint64(1<<63)
		for range 3 { // other goroutines allocate too
			if allocated > allocationFactor*uint64(len(frame))+allocationBase {
				allocated = allocatedBy(func() { r, m = rest, k.empty(); err = decode(&r, m) })
			}
		}
		if allocated > allocationFactor*uint64(len(frame))+allocationBase {
			t.Fatalf("%d bytes allocated for a frame of %d", allocated, len(frame))
		}
		if err != nil {
			return
		}
		if err := encode(&w, k.kind, m); err != nil {
			t.Fatalf("taken, but can't be sent: %v", err)
		}
		again, err := decodeAny(w.buf)
		if err != nil {
			t.Fatal(err)
		}
		var w2 wire
		if err := encode(&w2, k.kind, again); err != nil || string(w.buf) != string(w2.buf) {
			t.Fatalf("encoded twice: %x, %x, %v", w.buf, w2.buf, err)
		}
	})
}

func FuzzWork(f *testing.F)        { fuzz(f, "work") }
func FuzzResult(f *testing.F)      { fuzz(f, "result") }
func FuzzProgress(f *testing.F)    { fuzz(f, "progress") }
func FuzzError(f *testing.F)       { fuzz(f, "error") }
func FuzzAssign(f *testing.F)      { fuzz(f, "assign") }
func FuzzRefuse(f *testing.F)      { fuzz(f, "refuse") }
func FuzzDrain(f *testing.F)       { fuzz(f, "drain") }
func FuzzAck(f *testing.F)         { fuzz(f, "ack") }
func FuzzBeat(f *testing.F)        { fuzz(f, "beat") }
func FuzzCoordinator(f *testing.F) { fuzz(f, "coordinator") }
func FuzzGenerate(f *testing.F)    { fuzz(f, "generate") }
func FuzzEvent(f *testing.F)       { fuzz(f, "event") }
func FuzzAlive(f *testing.F)       { fuzz(f, "alive") }
func FuzzCancel(f *testing.F)      { fuzz(f, "cancel") }
func FuzzProbe(f *testing.F)       { fuzz(f, "probe") }
func FuzzHello(f *testing.F)       { fuzz(f, "hello") }
func FuzzPart(f *testing.F)        { fuzz(f, "part") }

// FuzzAssembler feeds parts made of the input's bytes: no panic, and the memory that is held is never more than the limit.
func FuzzAssembler(f *testing.F) {
	f.Add([]byte{0, 0, 2, 8, 4, 0, 1, 2, 8, 4})
	f.Add([]byte{0, 1, 2, 8, 4, 0, 0, 2, 8, 4, 1, 0, 1, 3, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		a := newAssembler()
		a.limit = 2000
		now := time.Unix(0, 0)
		for ; len(b) >= 5; b = b[5:] {
			p := part{count: int(b[2]%8) + 1, total: int(b[3]) + 1, data: make([]byte, b[4])}
			p.id[0], p.index = b[0]%4, int(b[1])%p.count
			whole, err := a.add("s", &p, now)
			if err == nil && whole != nil {
				if len(whole) != p.total {
					t.Fatalf("%d bytes of %d", len(whole), p.total)
				}
				a.release(whole)
			}
			held := int64(0)
			for _, tr := range a.transfers {
				for _, piece := range tr.pieces {
					held += int64(len(piece)) + pieceOverhead
				}
			}
			if held != a.held || held > a.limit {
				t.Fatalf("%d bytes held, %d counted, limit %d", held, a.held, a.limit)
			}
		}
		a.expire(now.Add(maxAssemblyAge + 1))
		if a.held != 0 || len(a.transfers) != 0 {
			t.Fatalf("%d bytes, %d transfers left", a.held, len(a.transfers))
		}
	})
}
