package arena

import (
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

func TestBadGeometry(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{})
	for _, g := range []Geometry{{}, {1, 0}, {0, 1}, {-1, 5}, {5, -1}, {1, math.MaxInt}, {math.MaxInt, 1}, {maxSlots + 1, 1}, {maxSlots, math.MaxInt / 2}} {
		if _, err := s.Open(Key{}, g); err == nil {
			t.Errorf("%+v was opened", g)
		}
	}
	for _, k := range []Key{{-1, 0}, {0, -1}, {math.MaxInt, 0}} {
		if _, err := s.Open(k, Geometry{1, 1}); err == nil {
			t.Errorf("%+v was opened", k)
		}
	}
}

// A layout either is refused or its slots lie apart, aligned, within the file; with no overflow.
func TestLayout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := Geometry{rapid.IntRange(-3, 1<<21).Draw(t, "slots"), rapid.OneOf(rapid.Int(), rapid.IntRange(-3, math.MaxInt32)).Draw(t, "bytes")}
		l, err := newLayout(g)
		hi, lo := bits.Mul64(uint64(g.Slots), uint64(g.SlotBytes))
		if g.Slots < 1 || g.Slots > maxSlots || g.SlotBytes < 1 || hi > 0 || lo > maxFileBytes {
			if err == nil {
				t.Fatalf("%+v was accepted: %+v", g, l)
			}
			return
		}
		if err != nil {
			if lo < maxFileBytes/2 && l.stride < 2*l.slotBytes && g.SlotBytes > hugePage {
				t.Fatalf("%+v was refused: %v", g, err)
			}
			return
		}
		last := l.offset(l.slots - 1)
		if l.first < l.headerBytes() || l.first%hugePage != 0 || l.stride%hugePage != 0 || l.stride < l.packed ||
			l.packed < l.slotBytes || l.packed%int64(pageBytes) != 0 || last+l.stride != l.size || l.size > 2*maxFileBytes {
			t.Fatalf("%+v: %+v", g, l)
		}
	})
}

// No other header or entry is taken for ours, and none makes the readers panic.
func TestHeaderOfAnyBytes(t *testing.T) {
	t.Parallel()
	l, err := newLayout(Geometry{Slots: 4, SlotBytes: 9001})
	if err != nil {
		t.Fatal(err)
	}
	id := identityOf("x")
	ours := l.fixed(Key{1, 2}, id)
	if why := l.mismatch(ours, Key{1, 2}, id); why != "" {
		t.Fatal(why)
	}
	mark := entry(id, 3, stateMarked, 99)
	if sum, ok := parseEntry(mark, id, 3); !ok || sum != 99 {
		t.Fatal("an entry doesn't survive")
	}
	rapid.Check(t, func(t *rapid.T) {
		b := append([]byte(nil), ours...)
		i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		b[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		if l.mismatch(b, Key{1, 2}, id) == "" {
			t.Fatalf("a header with byte %d changed is taken", i)
		}
		if l.mismatch(b[:i], Key{1, 2}, id) == "" {
			t.Fatal("a cut header is taken")
		}
		l.mismatch(rapid.SliceOf(rapid.Byte()).Draw(t, "any"), Key{1, 2}, id)
		e := append([]byte(nil), mark...)
		i = rapid.IntRange(0, 23).Draw(t, "at")
		e[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		if _, ok := parseEntry(e, id, 3); ok {
			t.Fatal("a changed entry is taken")
		}
	})
	for name, ok := range map[string]bool{
		"other slot":     func() bool { _, ok := parseEntry(mark, id, 2); return ok }(),
		"other identity": func() bool { _, ok := parseEntry(mark, identityOf("y"), 3); return ok }(),
		"empty":          func() bool { _, ok := parseEntry(make([]byte, entryBytes), id, 3); return ok }(),
	} {
		if ok {
			t.Errorf("an entry of %s is taken", name)
		}
	}
}
