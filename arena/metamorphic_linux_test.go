package arena

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/moepool/moepool/internal/smalldisk"
)

// step is one operation on a store with two arenas; its result is a line of the history.
type step struct {
	what  string
	key   Key
	slots []int
}

var metamorphic = []Geometry{{Slots: 6, SlotBytes: 5003}, {Slots: 3, SlotBytes: hugePage + 1}}

func drawSteps(t *rapid.T) []step {
	one := rapid.Custom(func(t *rapid.T) step {
		layer := rapid.IntRange(0, len(metamorphic)-1).Draw(t, "layer")
		slots := rapid.SliceOfNDistinct(rapid.IntRange(0, metamorphic[layer].Slots-1), 1, -1, rapid.ID).Draw(t, "slots")
		what := rapid.SampledFrom([]string{"fill", "fill", "fill", "fail", "bring", "bring", "punch", "evict", "restart", "spoil"}).Draw(t, "what")
		return step{what, Key{Layer: layer}, slots}
	})
	return rapid.SliceOfN(one, 1, 25).Draw(t, "steps")
}

// world is a store under one configuration.
type world struct {
	name    string
	dir     string // "": anonymous
	system  func() system
	store   *Store
	arenas  map[Key]*Arena
	history []string
}

func (w *world) open(t *rapid.T) {
	s, err := OpenStore(Options{Dir: w.dir, Identity: testIdentity, system: w.system()})
	if err != nil {
		t.Fatal(err)
	}
	w.store, w.arenas = s, map[Key]*Arena{}
	for layer, g := range metamorphic {
		k := Key{Layer: layer}
		if w.arenas[k], err = s.Open(k, g); err != nil {
			t.Fatal(err)
		}
	}
}

// run makes one step and writes down what a caller sees: a caller that finds a slot missing or torn fills
// it again, as a worker does. One identity has one content of a slot.
func (w *world) run(t *rapid.T, at step) {
	a := w.arenas[at.key]
	g := metamorphic[at.key.Layer]
	fill := func(slots ...int) error { return a.Fill(slots, filler(at.key.Layer)) }
	line := at.what
	switch at.what {
	case "fill":
		if err := fill(at.slots...); err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
	case "fail":
		mine := errors.New("mine")
		if err := a.Fill(at.slots, func(int, []byte) error { return mine }); err != mine {
			t.Fatalf("%s: %v", w.name, err)
		}
		for _, slot := range at.slots {
			line += fmt.Sprint(" ", a.Valid(slot))
		}
	case "bring":
		for _, slot := range at.slots {
			_, err := a.Bring(slot)
			if err != nil && !errors.Is(err, ErrNotFilled) && !errors.Is(err, ErrTorn) && !errors.Is(err, ErrTruncated) {
				t.Fatalf("%s: %v", w.name, err)
			}
			if err != nil {
				if err := fill(slot); err != nil {
					t.Fatalf("%s: %v", w.name, err)
				}
			}
			line += fmt.Sprintf(" %d:%x", slot, a.Bytes(slot)[:8])
			if !bytes.Equal(a.Bytes(slot), content(slot, at.key.Layer, g.SlotBytes)) {
				t.Fatalf("%s: slot %d has other bytes", w.name, slot)
			}
		}
	case "punch":
		for _, slot := range at.slots {
			_ = a.Punch(slot) // may fail on a disk that fails
			line += fmt.Sprint(" ", a.Valid(slot))
		}
	case "evict":
		for _, slot := range at.slots {
			if err := a.Evict(slot); err != nil {
				t.Fatalf("%s: %v", w.name, err)
			}
		}
	case "restart":
		if err := w.store.Close(); err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
		w.open(t)
	case "spoil": // cuts the file of a running arena in its last listed slot
		if a.file == nil {
			break
		}
		size := a.layout.offset(at.slots[len(at.slots)-1]) + 17
		if now, err := a.file.size(); err == nil && now > size {
			if err := os.Truncate(a.path, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.history = append(w.history, line)
}

// The same operations give the same histories with files, without, on a small disk, and with a disk that fails now and then.
func TestSameHistoryEverywhere(t *testing.T) {
	t.Parallel()
	disk, full := t.TempDir(), ""
	if shm, err := os.MkdirTemp("/dev/shm", "arena-test-"); err == nil { // much quicker
		disk = shm
		t.Cleanup(func() { os.RemoveAll(shm) })
	}
	if os.Getuid() == 0 {
		full = smalldisk.Mount(t, 6<<20)
	}
	rapid.Check(t, func(t *rapid.T) {
		steps := drawSteps(t)
		dir := func(parent string) string {
			d, err := os.MkdirTemp(parent, "")
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		perfect := func() system { return unsynced{realSystem{}} }
		kind := rapid.SampledFrom([]string{"allocate", "writeAt", "sync", "mapShared", "truncate", "punch"}).Draw(t, "kind")
		first := rapid.IntRange(1, 20).Draw(t, "first")
		worlds := []*world{
			{name: "anonymous", system: perfect},
			{name: "file", dir: dir(disk), system: perfect},
			{name: "failing", dir: dir(disk), system: func() system {
				return &faults{system: unsynced{realSystem{}}, kind: kind, first: first, last: first + 2, err: unix.EIO}
			}},
		}
		if full != "" {
			worlds = append(worlds, &world{name: "full", dir: dir(full), system: perfect})
		}
		for _, w := range worlds {
			w.open(t)
			for _, at := range steps {
				w.run(t, at)
			}
			if err := w.store.Close(); err != nil {
				t.Fatal(err)
			}
			if w.dir != "" {
				if err := os.RemoveAll(w.dir); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(w.history, worlds[0].history) {
				t.Fatalf("history of %s:\n%q\nof %s:\n%q", w.name, w.history, worlds[0].name, worlds[0].history)
			}
		}
	})
}

// unsynced doesn't sync, for speed: only a crash could show it.
type unsynced struct{ realSystem }

type unsyncedFile struct{ file }

func (u unsynced) open(path string, create bool) (file, error) {
	f, err := u.realSystem.open(path, create)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (u unsynced) syncFolder(string) error { return nil }

func (unsyncedFile) sync() error { return nil }
