package arena

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// content is what slot i of a test holds in its version v.
func content(slot, v, n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(slot), byte(slot >> 8), byte(v), byte(v >> 8), 77})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

func filler(v int) func(int, []byte) error {
	return func(slot int, dst []byte) error {
		copy(dst, content(slot, v, len(dst)))
		return nil
	}
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := OpenStore(Options{Dir: dir, Identity: "test", Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openArena(t *testing.T, s *Store, g Geometry) *Arena {
	t.Helper()
	a, err := s.Open(Key{3, 1}, g)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func check(t *testing.T, a *Arena, slot, v int) {
	t.Helper()
	if _, err := a.Bring(slot); err != nil {
		t.Fatal(err)
	}
	if !a.Valid(slot) || !a.Resident(slot) || !bytes.Equal(a.Bytes(slot), content(slot, v, a.Geometry().SlotBytes)) {
		t.Fatalf("slot %d differs", slot)
	}
}

func TestSecondStartReusesFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := Geometry{Slots: 5, SlotBytes: 3<<20 + 17}
	s := open(t, dir)
	a := openArena(t, s, g)
	if err := a.Fill([]int{4, 1}, filler(1)); err != nil {
		t.Fatal(err)
	}
	check(t, a, 4, 1)
	check(t, a, 1, 1)
	if _, err := a.Bring(0); !errors.Is(err, ErrNotFilled) {
		t.Fatal(err)
	}
	t.Logf("%+v", s.Counters())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	a = openArena(t, s, g)
	check(t, a, 4, 1)
	check(t, a, 1, 1)
	if err := a.Evict(1); err != nil {
		t.Fatal(err)
	}
	if a.Resident(1) {
		t.Fatal("still there")
	}
	check(t, a, 1, 1)
	t.Logf("%+v", s.Counters())
}
