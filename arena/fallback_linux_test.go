package arena

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/internal/lacking"
	"github.com/moepool/moepool/internal/ondisk"
	"github.com/moepool/moepool/internal/smalldisk"
)

func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := smalldisk.Mount(t, 8<<20)
	g := Geometry{Slots: 8, SlotBytes: 2<<20 - 3} // three and the header find room
	var log lines
	s := openStore(t, Options{Dir: dir, Log: log.log})
	a := openArena(t, s, g)
	fill(t, a, 1, 0)
	first := a.Bytes(0)
	fill(t, a, 1, 6, 2, 4, 1, 3)
	if &a.Bytes(0)[0] != &first[0] {
		t.Error("a slot moved when the disk was full")
	}
	bring(t, a, 1, 0, 1, 2, 3, 4, 6)
	want := Counters{Files: 1, Bytes: 6 * int64(g.SlotBytes), PackedBytes: 6 * int64(g.SlotBytes), Fallbacks: 1}
	if c := s.Counters(); c != want || !a.Anonymous() {
		t.Errorf("%+v, want %+v", c, want)
	}
	b, err := s.Open(Key{Layer: 9}, g) // no room for the header
	if err != nil {
		t.Fatal(err)
	}
	fill(t, b, 2, 5)
	bring(t, b, 2, 5)
	if c := s.Counters(); c.Fallbacks != 2 || !b.Anonymous() {
		t.Errorf("%+v", c)
	}
	if log.count("no space left on device") != 1 {
		t.Errorf("to be said once:\n%s", &log)
	}
	// Room that becomes free is used by the next Fill.
	if err := a.Punch(6, 1); err != nil { // one in the file, one in memory
		t.Fatal(err)
	}
	if a.Valid(6) || a.Valid(1) {
		t.Error("punched slots are valid")
	}
	fill(t, a, 3, 5)
	if a.slots[5].state.Load()&inMemory != 0 {
		t.Error("room that became free was not used")
	}
	bring(t, a, 3, 5)
	bring(t, a, 1, 0, 2, 3, 4)
	closeStore(t, s)

	s = openStore(t, Options{Dir: dir})
	a = openArena(t, s, g)
	bring(t, a, 1, 0, 2)
	bring(t, a, 3, 5)
	if a.Valid(3) || a.Valid(4) || a.Valid(6) || a.Valid(1) {
		t.Error("slots that had no file are valid after a start")
	}
}

// An error of the fill function leaves all listed slots unmarked, those too that the disk had room for.
func TestFillErrorOnFullDisk(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{Dir: ondisk.Folder(t), system: &faults{system: realSystem{}, kind: "allocate", first: 4, last: 4, err: unix.ENOSPC}})
	a := openArena(t, s, small)
	fill(t, a, 1, 3)
	mine := errors.New("mine")
	err := a.Fill([]int{0, 1, 2}, func(slot int, dst []byte) error { // the header's allocation is the first, slot 1's the fourth
		if slot == 2 {
			return mine
		}
		return filler(1)(slot, dst)
	})
	if err != mine || !a.Anonymous() || a.Valid(0) || a.Valid(1) || a.Valid(2) {
		t.Errorf("%v; valid %v %v %v", err, a.Valid(0), a.Valid(1), a.Valid(2))
	}
	if c := s.Counters(); c.Bytes != int64(small.SlotBytes) {
		t.Errorf("%+v", c)
	}
	fill(t, a, 2, 0, 1, 2)
	bring(t, a, 2, 0, 1, 2)
	bring(t, a, 1, 3)
}

// A slot that the disk can't read is a torn one: the caller packs it again.
func TestUnreadableSlot(t *testing.T) {
	t.Parallel()
	dir, _ := packed(t, small, 0, 2)
	s := openStore(t, Options{Dir: dir, system: &faults{system: realSystem{}, kind: "populate", first: 1, last: 1, err: errFault}})
	a := openArena(t, s, small)
	if _, err := a.Bring(2); !errors.Is(err, ErrTorn) || a.Valid(2) {
		t.Error(err)
	}
	bring(t, a, 1, 0)
	fill(t, a, 1, 2)
	bring(t, a, 1, 0, 2)
}

// A folder that can't be used gives anonymous memory, says so once and counts every arena.
func TestUnusableFolder(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log lines
	s := openStore(t, Options{Dir: filepath.Join(plain, "below"), Log: log.log})
	for layer := range 3 {
		a, err := s.Open(Key{Layer: layer}, small)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, a, 1, 0, 3)
		bring(t, a, 1, 0, 3)
		if !a.Anonymous() {
			t.Error("not anonymous")
		}
	}
	if c := s.Counters(); c.Fallbacks != 3 || c.Files != 0 || s.Dir() != "" || log.count("not a directory") != 1 {
		t.Errorf("%+v\n%s", c, &log)
	}
}

func TestReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	dir := smalldisk.Mount(t, 1<<20)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		lacking.Skip(t, "remounting a tmpfs read-only: %v", err)
	}
	var log lines
	s := openStore(t, Options{Dir: filepath.Join(dir, "worker-0"), Log: log.log})
	a := openArena(t, s, small)
	fill(t, a, 1, 1)
	bring(t, a, 1, 1)
	if c := s.Counters(); c.Fallbacks != 1 || log.count("read-only file system") != 1 {
		t.Errorf("%+v\n%s", c, &log)
	}
}

// Anonymous memory that nobody asked a file for is no fallback.
func TestNoFolder(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", "none"} {
		var log lines
		s := openStore(t, Options{Dir: dir, Log: log.log})
		a := openArena(t, s, small)
		fill(t, a, 1, 0, 2)
		bring(t, a, 1, 0, 2)
		if err := a.Evict(0); err != nil {
			t.Fatal(err)
		}
		if !a.Resident(0) {
			t.Error("an anonymous slot was evicted")
		}
		if err := a.Punch(0); err != nil {
			t.Fatal(err)
		}
		fill(t, a, 2, 0, 1)
		bring(t, a, 2, 0, 1)
		bring(t, a, 1, 2)
		want := Counters{Bytes: 3 * int64(small.SlotBytes), PackedBytes: 4 * int64(small.SlotBytes)}
		if c := s.Counters(); c != want || !a.Anonymous() || log.String() != "" {
			t.Errorf("%+v, want %+v\n%s", c, want, &log)
		}
	}
}

// Every call that can fail does, at each of its turns, once or for ever. Open and Fill go on, every filled slot has its bytes,
// and what is found after a restart was filled under this identity or is not there.
func TestEveryFault(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"makeFolder", "openLock", "lock", "open", "create", "remove", "syncFolder", "truncate", "allocate",
		"writeAt", "sync", "mapShared", "size", "readAt", "punch"} {
		for _, forever := range []bool{false, true} {
			t.Run(fmt.Sprintf("kind=%s/forever=%v", kind, forever), func(t *testing.T) {
				t.Parallel()
				n := 1
				for ; ; n++ {
					f := &faults{system: realSystem{}, kind: kind, first: n, last: n, err: unix.EIO}
					if forever {
						f.last = 1 << 30
					}
					if !runWithFault(t, f) {
						break
					}
				}
				if n == 1 {
					t.Errorf("no call of %s was made", kind)
				}
			})
		}
	}
}

// runWithFault runs the scenario of TestEveryFault; false if the fault was not reached.
func runWithFault(t *testing.T, f *faults) bool {
	t.Helper()
	dir := t.TempDir()
	for _, identity := range []string{"old", testIdentity} {
		versions := map[int]int{} // of the slots, by their last Fill
		inner := system(f)
		if identity == "old" {
			inner = realSystem{} // a file to be rebuilt
		}
		s := openStore(t, Options{Dir: dir, Identity: identity, system: inner})
		a := openArena(t, s, small)
		step := func(v int, slots ...int) {
			fill(t, a, v, slots...)
			for _, slot := range slots {
				versions[slot] = v
			}
			for slot, v := range versions {
				checkFaulty(t, f, a, slot, v)
			}
		}
		step(1, 0, 1)
		step(2, 2, 1)
		if err := a.Punch(0); err != nil && !errors.Is(err, unix.EIO) {
			t.Fatal(err)
		}
		delete(versions, 0)
		if a.Valid(0) {
			t.Fatal("a punched slot is valid")
		}
		step(3, 3, 0)
		wasReached := identity != "old" && f.reached()
		if c := s.Counters(); wasReached && c.Fallbacks == 0 && f.kind != "size" && f.kind != "readAt" && f.kind != "punch" && f.kind != "sync" && f.kind != "writeAt" {
			t.Fatalf("%s fails at call %d: no fallback: %+v", f.kind, f.first, c)
		}
		closeStore(t, s)
	}
	s := openStore(t, Options{Dir: dir})
	a := openArena(t, s, small)
	for slot := range small.Slots {
		if !a.Valid(slot) {
			continue
		}
		if _, err := a.Bring(slot); err != nil {
			t.Fatalf("%s fails at call %d: after a restart: %v", f.kind, f.first, err)
		}
		found := 0
		for v := 1; v <= 3; v++ {
			if bytes.Equal(a.Bytes(slot), content(slot, v, small.SlotBytes)) {
				found = v
			}
		}
		// A mark that couldn't be taken away leaves the bytes of before, which are right: one identity has one content. This
		// test has several to tell them apart.
		if found == 0 {
			t.Fatalf("%s fails at call %d: wrong bytes in slot %d after a restart", f.kind, f.first, slot)
		}
	}
	closeStore(t, s)
	return f.reached()
}

// checkFaulty brings a slot; an injected error of a read may be returned, other bytes may not.
func checkFaulty(t *testing.T, f *faults, a *Arena, slot, v int) {
	t.Helper()
	if !a.Valid(slot) {
		t.Fatalf("%s fails at call %d: slot %d is not valid", f.kind, f.first, slot)
	}
	if _, err := a.Bring(slot); err != nil && !(errors.Is(err, unix.EIO) && f.kind == "size") {
		t.Fatalf("%s fails at call %d: %v", f.kind, f.first, err)
	}
	if !bytes.Equal(a.Bytes(slot), content(slot, v, small.SlotBytes)) {
		t.Fatalf("%s fails at call %d: slot %d has other bytes", f.kind, f.first, slot)
	}
}

// Only address space is an error.
func TestNoAddressSpace(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{system: &faults{system: realSystem{}, kind: "reserve", first: 1, last: 1, err: unix.ENOMEM}})
	_, err := s.Open(testKey, Geometry{Slots: 3, SlotBytes: 5 << 20})
	if !errors.Is(err, unix.ENOMEM) || !bytes.Contains([]byte(err.Error()), []byte("15728640 bytes")) {
		t.Error(err)
	}
	if _, err := s.Open(testKey, Geometry{Slots: 3, SlotBytes: 5 << 20}); err != nil {
		t.Error(err)
	}
}
