package arena

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/internal/ondisk"
)

// odd is a geometry whose slots end within a page and within a huge page.
var odd = Geometry{Slots: 5, SlotBytes: 3<<20 + 17}

func TestSecondStartPacksNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(ondisk.Folder(t), "parents", "are", "made")
	s := openStore(t, Options{Dir: dir})
	a := openArena(t, s, odd)
	fill(t, a, 1, 4, 1)
	bring(t, a, 1, 4, 1)
	want := Counters{Files: 1, Bytes: 2 * int64(odd.SlotBytes), PackedBytes: 2 * int64(odd.SlotBytes)}
	if c := s.Counters(); c != want {
		t.Errorf("first start: %+v, want %+v", c, want)
	}
	if a.Anonymous() || a.Valid(0) || a.Bytes(0) != nil {
		t.Error("a slot that was not filled is there")
	}
	if _, err := a.Bring(0); !errors.Is(err, ErrNotFilled) {
		t.Errorf("Bring of an empty slot: %v", err)
	}
	closeStore(t, s)

	s = openStore(t, Options{Dir: dir})
	a = openArena(t, s, odd)
	if !a.Valid(4) || !a.Valid(1) || a.Valid(0) {
		t.Error("marks were not found")
	}
	bring(t, a, 1, 4, 1)
	bring(t, a, 1, 4, 1)
	want = Counters{Files: 1, Bytes: 2 * int64(odd.SlotBytes), ReusedBytes: 2 * int64(odd.SlotBytes), VerifiedSlots: 2}
	if c := s.Counters(); c != want {
		t.Errorf("second start: %+v, want %+v", c, want)
	}
	for _, p := range []string{dir, filepath.Dir(dir), a.path} {
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v", p, st.Mode())
		}
	}
}

func TestOnlyFilledSlotsTakeRoom(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{Dir: ondisk.Folder(t)})
	g := Geometry{Slots: 64, SlotBytes: 1<<20 + 5}
	a := openArena(t, s, g)
	fill(t, a, 1, 0, 63)
	const slack = 256 << 10 // header and the file system's own blocks
	if used, most := blocks(t, a.path), 2*a.layout.packed+slack; used > most {
		t.Errorf("%d bytes on disk for two slots, at most %d", used, most)
	}
	if err := a.Punch(0); err != nil {
		t.Fatal(err)
	}
	if used, most := blocks(t, a.path), a.layout.packed+slack; used > most {
		t.Errorf("%d bytes on disk for one slot, at most %d", used, most)
	}
	if a.Valid(0) || a.Resident(0) {
		t.Error("a punched slot is still there")
	}
	bring(t, a, 1, 63)
	fill(t, a, 2, 0)
	bring(t, a, 2, 0)
	bring(t, a, 1, 63)
	if c := s.Counters(); c.Bytes != 2*int64(g.SlotBytes) || c.PackedBytes != 3*int64(g.SlotBytes) {
		t.Errorf("%+v", c)
	}
}

func blocks(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func TestEvictAndBring(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{Dir: ondisk.Folder(t)})
	for _, n := range []int{5000, hugePage, odd.SlotBytes} { // below, exactly and beyond a huge page
		a, err := s.Open(Key{Layer: n}, Geometry{Slots: 3, SlotBytes: n})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, a, 1, 0, 1, 2)
		bring(t, a, 1, 0, 1, 2)
		for range 2 {
			evict(t, a, 1)
			if a.Resident(1) || !a.Resident(0) || !a.Resident(2) || !a.Valid(1) {
				t.Errorf("%d bytes: evicted slot 1: resident %v %v %v", n, a.Resident(0), a.Resident(1), a.Resident(2))
			}
			if hit, err := a.Bring(1); hit || err != nil {
				t.Errorf("%d bytes: Bring after Evict: hit %v, %v", n, hit, err)
			}
			if hit, err := a.Bring(1); !hit || err != nil {
				t.Errorf("%d bytes: second Bring: hit %v, %v", n, hit, err)
			}
			bring(t, a, 1, 1)
		}
	}
	if c := s.Counters(); c.VerifiedSlots != 0 {
		t.Errorf("slots of this process were verified: %+v", c)
	}
}

// Kernels before 5.14 have no MADV_POPULATE_READ, those before 5.18 read no huge pages on faults.
func TestBringOnOldKernels(t *testing.T) {
	t.Parallel()
	dir, _ := packed(t, odd, 0, 3)
	s := openStore(t, Options{Dir: dir, system: &faults{system: realSystem{}, kind: "populate", first: 1, last: 1 << 30, err: errors.ErrUnsupported}})
	a := openArena(t, s, odd)
	a.hugeReads = false
	for range 2 {
		bring(t, a, 1, 0, 3)
		evict(t, a, 0, 3)
	}
	edit(t, a.path, func(f *os.File) error { return f.Truncate(a.layout.offset(3) + 7) })
	if _, err := a.Bring(3); !errors.Is(err, ErrTruncated) {
		t.Error(err)
	}
}

func TestOneMappingPerFile(t *testing.T) {
	s := openStore(t, Options{Dir: ondisk.Folder(t)}) // not parallel: others map too
	before := len(mapsLines(t))
	const layers = 40
	for layer := range layers {
		a, err := s.Open(Key{Layer: layer}, Geometry{Slots: 16, SlotBytes: 10000})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, a, 1, 2, 5, 11)
		bring(t, a, 1, 2, 5, 11)
		if err := a.Evict(5); err != nil {
			t.Fatal(err)
		}
		if err := a.Punch(2); err != nil {
			t.Fatal(err)
		}
	}
	after := mapsLines(t)
	ours := 0
	for _, line := range after {
		if strings.HasSuffix(line, ".arena") {
			ours++
		}
	}
	if ours != layers || len(after)-before > 2*layers {
		t.Errorf("%d layers: %d mappings of files, %d lines more in /proc/self/maps", layers, ours, len(after)-before)
	}
}

func mapsLines(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func TestMappingIsAligned(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{Dir: ondisk.Folder(t)})
	a := openArena(t, s, odd)
	fill(t, a, 1, 0, 1)
	m := a.Mappings()
	if len(m) != 1 || address(m[0])%hugePage != 0 || a.layout.offset(1)%hugePage != 0 {
		t.Errorf("slots don't lie at multiples of 2 MiB")
	}
	if got := address(a.Bytes(1)) - address(m[0]); int64(got) != a.layout.stride {
		t.Errorf("slot 1 lies at %d", got)
	}
	h, err := s.HugePages()
	if err != nil {
		t.Fatal(err)
	}
	bring(t, a, 1, 0, 1)
	if h, err = s.HugePages(); err != nil || h.Resident < 2*a.layout.packed {
		t.Errorf("%+v, %v", h, err)
	}
	t.Logf("huge pages: %+v, share %.2f", h, h.Share())
}

func TestFillErrors(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"none", ondisk.Folder(t)} {
		s := openStore(t, Options{Dir: dir})
		a := openArena(t, s, odd)
		fill(t, a, 1, 0, 1)
		mine := errors.New("checkpoint shard 3 is damaged")
		err := a.Fill([]int{2, 1, 3}, func(slot int, dst []byte) error {
			if slot == 1 {
				return mine
			}
			return filler(2)(slot, dst)
		})
		if err != mine {
			t.Errorf("%s: %v", dir, err)
		}
		if !a.Valid(0) || a.Valid(1) || a.Valid(2) || a.Valid(3) {
			t.Errorf("%s: valid after the error: %v %v %v %v", dir, a.Valid(0), a.Valid(1), a.Valid(2), a.Valid(3))
		}
		bring(t, a, 1, 0)
		fill(t, a, 3, 3, 2, 1)
		bring(t, a, 3, 1, 2, 3)
		for _, list := range [][]int{{-1}, {5}, {0, 0}} {
			if err := a.Fill(list, filler(9)); err == nil {
				t.Errorf("%s: Fill of %v", dir, list)
			}
		}
		for _, err := range []error{a.Punch(5), a.Evict(-1), second(a.Bring(5))} {
			if err == nil || !strings.Contains(err.Error(), "0 to 4") {
				t.Errorf("%s: a slot that doesn't exist: %v", dir, err)
			}
		}
		if a.Valid(-1) || a.Valid(5) || a.Resident(5) || a.Bytes(5) != nil {
			t.Errorf("%s: a slot that doesn't exist is there", dir)
		}
		if err := a.Fill(nil, nil); err != nil {
			t.Error(err)
		}
		bring(t, a, 1, 0)
		if c := s.Counters(); c.Fallbacks != 0 || c.Bytes != 4*int64(odd.SlotBytes) {
			t.Errorf("%s: %+v", dir, c)
		}
	}
}

func second(_ bool, err error) error { return err }

func TestClosed(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", ondisk.Folder(t)} {
		s := openStore(t, Options{Dir: dir})
		a := openArena(t, s, odd)
		fill(t, a, 1, 0)
		// Close waits for a Fill that is inside, and the fill function may still call the arena.
		begun, went := make(chan bool), make(chan error)
		go func() {
			went <- a.Fill([]int{1}, func(slot int, dst []byte) error {
				close(begun)
				for a.Bytes(0) != nil { // until Close has shut the gate
					runtime.Gosched()
				}
				return filler(1)(slot, dst)
			})
		}()
		<-begun
		closeStore(t, s)
		if err := <-went; err != nil {
			t.Error(err)
		}
		_, err := s.Open(testKey, odd)
		for _, err := range []error{err, a.Fill([]int{0}, filler(1)), second(a.Bring(0)), a.Punch(0), a.Evict(0)} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%q: after Close: %v", dir, err)
			}
		}
		if a.Bytes(0) != nil || a.Resident(0) || a.Mappings() != nil {
			t.Errorf("%q: bytes after Close", dir)
		}
		closeStore(t, s)
		if dir == "" {
			continue
		}
		a = openArena(t, openStore(t, Options{Dir: dir}), odd)
		bring(t, a, 1, 0, 1)
	}
}

func TestOpenTwice(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{Dir: ondisk.Folder(t)})
	a, b := openArena(t, s, odd), openArena(t, s, odd)
	if a != b {
		t.Error("two arenas of one key")
	}
	if _, err := s.Open(testKey, Geometry{Slots: 5, SlotBytes: 8}); err == nil {
		t.Error("a key is open with two geometries")
	}
}

func TestTinySlots(t *testing.T) {
	t.Parallel()
	g := Geometry{Slots: 70000, SlotBytes: 1} // its marks need more than 2 MiB
	dir := ondisk.Folder(t)
	for range 2 {
		s := openStore(t, Options{Dir: dir})
		a := openArena(t, s, g)
		if !a.Valid(69999) {
			fill(t, a, 1, 0, 69999)
		}
		bring(t, a, 1, 0, 69999)
		if a.layout.first != 2*hugePage {
			t.Errorf("slot 0 at %d", a.layout.first)
		}
		closeStore(t, s)
	}
}

func TestBytesAreReadOnly(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{Dir: ondisk.Folder(t)})
	a := openArena(t, s, odd)
	fill(t, a, 1, 0)
	data := a.Bytes(0)
	if err := guarded(data, func() { data[0]++ }); !errors.Is(err, errFault) {
		t.Errorf("a store into a slot: %v", err)
	}
	if !bytes.Equal(data, content(0, 1, len(data))) {
		t.Error("a slot was changed")
	}
}
