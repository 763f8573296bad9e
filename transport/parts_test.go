package transport

import (
	"bytes"
	"math/rand"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func cut(id byte, frame []byte, size int) []part {
	var parts []part
	count := (len(frame) + size - 1) / size
	for i := range count {
		p := part{index: i, count: count, total: len(frame), data: frame[i*size : min((i+1)*size, len(frame))]}
		p.id[0] = id
		parts = append(parts, p)
	}
	return parts
}

// TestAssemble: parts of several messages of several senders, in any order, give each message once.
func TestAssemble(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := newAssembler()
		type sent struct {
			source string
			part   part
		}
		var all []sent
		want := map[string]int{}
		for source := range rapid.IntRange(1, 3).Draw(t, "senders") {
			for id := range rapid.IntRange(1, 4).Draw(t, "messages") {
				frame := rapid.SliceOfN(rapid.Byte(), 1, 60).Draw(t, "frame")
				want[string(frame)]++
				for _, p := range cut(byte(id), frame, rapid.IntRange(1, 20).Draw(t, "size")) {
					all = append(all, sent{string(rune('a' + source)), p})
				}
			}
		}
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "order"))).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, s := range all {
			frame, err := a.add(s.source, &s.part, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if frame != nil {
				want[string(frame)]--
				a.release(frame)
			}
		}
		for frame, n := range want {
			if n != 0 {
				t.Fatalf("message %x: %d missing", frame, n)
			}
		}
		if a.held != 0 || len(a.transfers) != 0 {
			t.Fatalf("%d bytes and %d transfers left", a.held, len(a.transfers))
		}
	})
}

// TestAssembleRefuses: parts that don't fit end their transfer and leave nothing behind.
func TestAssembleRefuses(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	for name, c := range map[string]struct {
		change func(p *part)
		reason string
	}{
		"twice":         {func(p *part) { p.index = 0 }, "came twice"},
		"another count": {func(p *part) { p.count = 4 }, "an earlier one was of 3 (25 bytes)"},
		"another total": {func(p *part) { p.total = 30 }, "an earlier one was of 3"},
		"too long":      {func(p *part) { p.data = make([]byte, 16) }, "too many bytes"},
		"empty":         {func(p *part) { p.data = nil }, "is empty"},
	} {
		a := newAssembler()
		parts := cut(1, make([]byte, 25), 10)
		if _, err := a.add("s", &parts[0], now); err != nil {
			t.Fatal(err)
		}
		c.change(&parts[1])
		if frame, err := a.add("s", &parts[1], now); err == nil || frame != nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: frame %v, error %v", name, frame, err)
		}
		if a.held != 0 || len(a.transfers) != 0 {
			t.Errorf("%s: %d bytes and %d transfers left", name, a.held, len(a.transfers))
		}
	}

	a := newAssembler()
	short := cut(1, make([]byte, 25), 10)
	short[2].data = short[2].data[:4]
	for i := range short {
		frame, err := a.add("s", &short[i], now)
		if frame != nil || (err != nil) != (i == 2) {
			t.Fatalf("part %d: frame %v, error %v", i, frame, err)
		}
	}
}

func TestAssembleLimits(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	a := newAssembler()
	a.limit = 1000
	first, second := cut(1, make([]byte, 1600), 400), cut(2, make([]byte, 1600), 600)
	if _, err := a.add("s", &first[0], now); err != nil {
		t.Fatal(err)
	}
	if _, err := a.add("s", &second[0], now); err == nil || !strings.Contains(err.Error(), "more than 1000 bytes") {
		t.Fatal(err)
	}
	if a.expire(now.Add(maxAssemblyAge)) != 0 || a.expire(now.Add(maxAssemblyAge+1)) != 1 || a.held != 0 {
		t.Fatalf("%d bytes are held after the age limit", a.held)
	}
	a.limit = maxAssembly
	for i := range maxTransfers + 1 {
		p := cut(0, make([]byte, 2), 1)[0]
		p.id[1], p.id[2] = byte(i), byte(i>>8)
		if _, err := a.add("s", &p, now); (err != nil) != (i == maxTransfers) {
			t.Fatalf("transfer %d: %v", i, err)
		}
	}
}

// TestMemoryIsReused: the frame of a second message lies where the first one's was.
func TestMemoryIsReused(t *testing.T) {
	t.Parallel()
	a := newAssembler()
	assemble := func(b byte) []byte {
		for _, p := range cut(b, bytes.Repeat([]byte{b}, 100), 30) {
			if frame, err := a.add("s", &p, time.Now()); err != nil {
				t.Fatal(err)
			} else if frame != nil {
				a.release(frame)
				return frame
			}
		}
		t.Fatal("not assembled")
		return nil
	}
	x, y := assemble(1), assemble(2)
	if &x[0] != &y[0] || y[99] != 2 {
		t.Fatal("memory was not reused")
	}
}
