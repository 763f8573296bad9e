package arena

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/moepool/moepool/internal/leaks"
	"github.com/moepool/moepool/internal/ondisk"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("ARENA_TEST_ROLE"); role != "" {
		if err := roles[role](os.Getenv("ARENA_TEST_DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaks.VerifyTestMain(m)
}

var contents sync.Map

// content is what a slot of a test holds in its version v; not to be written.
func content(slot, v, n int) []byte {
	key := [3]int{slot, v, n}
	if b, ok := contents.Load(key); ok {
		return b.([]byte)
	}
	r := rand.NewChaCha8([32]byte{byte(slot), byte(slot >> 8), byte(v), byte(v >> 8), 77})
	b := make([]byte, n)
	_, _ = r.Read(b)
	contents.Store(key, b)
	return b
}

// filler fills every slot with its version v.
func filler(v int) func(int, []byte) error {
	return func(slot int, dst []byte) error {
		copy(dst, content(slot, v, len(dst)))
		return nil
	}
}

// lines collects a store's log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) log(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

// count says how many lines contain a text.
func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.all {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

const testIdentity = "model digest, q8, parts 1, layout 1"

func openStore(t *testing.T, o Options) *Store {
	t.Helper()
	if o.Identity == "" {
		o.Identity = testIdentity
	}
	s, err := OpenStore(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

var testKey = Key{Layer: 3, Part: 1}

func openArena(t *testing.T, s *Store, g Geometry) *Arena {
	t.Helper()
	a, err := s.Open(testKey, g)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func fill(t *testing.T, a *Arena, v int, slots ...int) {
	t.Helper()
	if err := a.Fill(slots, filler(v)); err != nil {
		t.Fatal(err)
	}
}

// bring brings slots and compares them with their version v.
func bring(t *testing.T, a *Arena, v int, slots ...int) {
	t.Helper()
	for _, slot := range slots {
		if _, err := a.Bring(slot); err != nil {
			t.Fatal(err)
		}
		if !a.Valid(slot) || !a.Resident(slot) {
			t.Fatalf("slot %d was brought: valid %v, resident %v", slot, a.Valid(slot), a.Resident(slot))
		}
		if !bytes.Equal(a.Bytes(slot), content(slot, v, a.Geometry().SlotBytes)) {
			t.Fatalf("slot %d has other bytes than its version %d", slot, v)
		}
	}
}

// packed is a folder with one file that holds version 1 of the slots; its store is closed.
func packed(t *testing.T, g Geometry, slots ...int) (dir, path string) {
	t.Helper()
	dir = ondisk.Folder(t)
	s := openStore(t, Options{Dir: dir})
	a := openArena(t, s, g)
	fill(t, a, 1, slots...)
	if c := s.Counters(); c.Fallbacks != 0 {
		t.Fatalf("fallbacks in %s: %+v", dir, c)
	}
	path = a.path
	closeStore(t, s)
	return dir, path
}

func edit(t *testing.T, path string, f func(f *os.File) error) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := f(file); err != nil {
		t.Fatal(err)
	}
}
