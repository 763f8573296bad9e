package arena

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// sector is what a disk writes as a whole.
const sector = 512

// crashDisk records what a file's disk would hold: what was there at the last sync, and the changes since, of which a crash
// keeps any.
type crashDisk struct {
	synced  image
	pending []func(*image, func() bool) // applies a change, each sector if keep says so
	crash   func(step string)           // called before and after each change
}

type image struct {
	size    int64
	sectors map[int64][sector]byte
}

func (m *image) clone() image {
	c := image{m.size, make(map[int64][sector]byte, len(m.sectors))}
	for at, s := range m.sectors {
		c.sectors[at] = s
	}
	return c
}

// write stores the bytes of b that lie in kept sectors.
func (m *image) write(b []byte, offset int64, keep func() bool) {
	for len(b) > 0 {
		at := offset / sector
		n := min(int64(len(b)), (at+1)*sector-offset)
		if keep() {
			s := m.sectors[at]
			copy(s[offset%sector:], b[:n])
			m.sectors[at] = s
		}
		b, offset = b[n:], offset+n
	}
}

func (m *image) save(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(m.size); err != nil {
		t.Fatal(err)
	}
	for at, s := range m.sectors {
		if at*sector < m.size {
			if _, err := f.WriteAt(s[:min(sector, m.size-at*sector)], at*sector); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// crashSystem records the arena file.
type crashSystem struct {
	realSystem
	disk *crashDisk
}

func (c crashSystem) open(path string, create bool) (file, error) {
	f, err := c.realSystem.open(path, create)
	if err != nil {
		return nil, err
	}
	return &crashFile{f, c.disk}, nil
}

type crashFile struct {
	file
	d *crashDisk
}

func (d *crashDisk) change(step string, f func(*image, func() bool)) {
	d.pending = append(d.pending, f)
	d.crash(step)
}

func (f *crashFile) writeAt(p []byte, offset int64) error {
	p = bytes.Clone(p)
	f.d.change(fmt.Sprintf("write %d at %d", len(p), offset), func(m *image, keep func() bool) { m.write(p, offset, keep) })
	return f.file.writeAt(p, offset)
}

func (f *crashFile) punch(offset, n int64) error {
	f.d.change(fmt.Sprintf("punch %d at %d", n, offset), func(m *image, keep func() bool) {
		for at := range m.sectors {
			if at*sector >= offset && at*sector < offset+n && keep() {
				delete(m.sectors, at)
			}
		}
	})
	return f.file.punch(offset, n)
}

func (f *crashFile) truncate(size int64) error {
	f.d.change(fmt.Sprintf("truncate to %d", size), func(m *image, keep func() bool) {
		if keep() {
			m.size = size
		}
	})
	return f.file.truncate(size)
}

func (f *crashFile) sync() error {
	f.d.crash("before sync")
	for _, change := range f.d.pending {
		change(&f.d.synced, func() bool { return true })
	}
	f.d.pending = nil
	f.d.crash("after sync")
	return f.file.sync()
}

// A crash at any point, with any of the unsynced sectors on the disk, leaves slots unmarked or with their bytes, never torn;
// and what a Fill has returned for stays.
func TestCrash(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	clones := t.TempDir()
	must := map[int]int{}         // slots that have to be there, by version
	may := map[int]map[int]bool{} // versions that a slot may have
	crashes, found := 0, 0
	disk := &crashDisk{synced: image{sectors: map[int64][sector]byte{}}}
	disk.crash = func(step string) {
		for _, share := range []float64{0, 1, 0.5, 0.9} {
			crashes++
			m := disk.synced.clone()
			for _, change := range disk.pending {
				change(&m, func() bool { return random.Float64() < share })
			}
			dir := filepath.Join(clones, fmt.Sprint(crashes))
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			m.save(t, filepath.Join(dir, fileName(testKey)))
			s := openStore(t, Options{Dir: dir})
			a := openArena(t, s, small)
			for slot := range small.Slots {
				if !a.Valid(slot) {
					if v, ok := must[slot]; ok {
						t.Fatalf("crash at %q (%v of the sectors): slot %d, version %d, is lost", step, share, slot, v)
					}
					continue
				}
				if _, err := a.Bring(slot); err != nil {
					t.Fatalf("crash at %q (%v of the sectors): %v", step, share, err)
				}
				ok := false
				for v := range may[slot] {
					ok = ok || bytes.Equal(a.Bytes(slot), content(slot, v, small.SlotBytes))
				}
				if v, fixed := must[slot]; fixed {
					ok = bytes.Equal(a.Bytes(slot), content(slot, v, small.SlotBytes))
				}
				if !ok {
					t.Fatalf("crash at %q (%v of the sectors): slot %d has wrong bytes", step, share, slot)
				}
				found++
			}
			closeStore(t, s)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}

	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir, system: crashSystem{disk: disk}})
	a := openArena(t, s, small)
	fillIt := func(v int, slots ...int) {
		for _, slot := range slots {
			if may[slot] == nil {
				may[slot] = map[int]bool{}
			}
			may[slot][v] = true
			delete(must, slot)
		}
		fill(t, a, v, slots...)
		for _, slot := range slots {
			must[slot] = v
			may[slot] = map[int]bool{v: true}
		}
	}
	fillIt(1, 0, 2)
	fillIt(2, 3)
	fillIt(3, 2, 1) // 2 was marked
	delete(must, 0)
	if err := a.Punch(0); err != nil {
		t.Fatal(err)
	}
	fillIt(4, 0)
	truncate(t, a.path, a.layout.offset(2)+10)
	disk.synced.size = a.layout.offset(2) + 10
	for at := range disk.synced.sectors {
		if at*sector >= disk.synced.size {
			delete(disk.synced.sectors, at)
		}
	}
	delete(must, 0) // the header says the wrong size until it is restored
	delete(must, 1)
	delete(must, 2)
	delete(must, 3)
	fillIt(5, 3)
	must[0], must[1] = 4, 3
	fillIt(6, 2)
	if crashes < 100 || found < 100 {
		t.Errorf("%d crashes, %d slots looked at", crashes, found)
	}
	t.Logf("%d crashes, %d slots looked at", crashes, found)
}
