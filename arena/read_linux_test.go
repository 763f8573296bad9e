package arena

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// largeGeometry has slots of four whole pieces and a tail.
var largeGeometry = Geometry{Slots: 3, SlotBytes: 4*hugePage + 12345}

// smallReads is a system whose faults read no huge pages, as kernels before 5.18.
type smallReads struct{ system }

func (s smallReads) open(path string, create bool) (file, error) {
	f, err := s.system.open(path, create)
	if err != nil {
		return nil, err
	}
	return smallReadsFile{f}, nil
}

type smallReadsFile struct{ file }

func (f smallReadsFile) mapShared(offset, bytes int64) ([]byte, bool, error) {
	m, _, err := f.file.mapShared(offset, bytes)
	return m, false, err
}

// Each way of reading brings the same bytes, verified, whether one or several callers ask for a slot.
func TestWaysToRead(t *testing.T) {
	t.Parallel()
	dir, _ := packed(t, largeGeometry, 0, 1, 2)
	for _, c := range []struct {
		name   string
		system system
	}{
		{"huge faults", realSystem{}},
		{"small faults", smallReads{realSystem{}}},
		{"no populate", &faults{system: realSystem{}, kind: "populate", first: 1, last: 1 << 30, err: errors.ErrUnsupported}},
		{"small faults, no populate", &faults{system: smallReads{realSystem{}}, kind: "populate", first: 1, last: 1 << 30, err: errors.ErrUnsupported}},
		{"no memory for pieces", &faults{system: realSystem{}, kind: "populate", first: 2, last: 4, err: unix.ENOMEM}},
	} {
		for _, callers := range []int{1, 6} {
			t.Run(fmt.Sprintf("%s/callers=%d", c.name, callers), func(t *testing.T) {
				s := openStore(t, Options{Dir: dir, system: c.system})
				a := openArena(t, s, largeGeometry)
				for range 2 {
					evict(t, a, 0, 1, 2)
					var group sync.WaitGroup
					for i := range callers {
						group.Go(func() {
							for j := range largeGeometry.Slots {
								slot := (i + j) % largeGeometry.Slots
								if _, err := a.Bring(slot); err != nil {
									t.Error(err)
								} else if !bytes.Equal(a.Bytes(slot), content(slot, 1, largeGeometry.SlotBytes)) || !a.Resident(slot) {
									t.Errorf("slot %d has other bytes, or is not resident", slot)
								}
							}
						})
					}
					group.Wait()
				}
				if v := s.Counters(); v.VerifiedSlots != int64(largeGeometry.Slots) || v.TornSlots != 0 {
					t.Errorf("%+v", v)
				}
				closeStore(t, s)
			})
		}
	}
}

// A byte that is wrong in any piece is found while the slot is read; so is an error of any piece.
func TestPieces(t *testing.T) {
	t.Parallel()
	pieces := []int{0, hugePage, 2*hugePage - 1, 3*hugePage + 7, largeGeometry.SlotBytes - 1}
	for i, at := range pieces {
		t.Run(fmt.Sprintf("torn at %d", at), func(t *testing.T) {
			t.Parallel()
			dir, path := packed(t, largeGeometry, 0, 1)
			l, err := newLayout(largeGeometry)
			if err != nil {
				t.Fatal(err)
			}
			edit(t, path, func(f *os.File) error {
				_, err := f.WriteAt([]byte{content(1, 1, largeGeometry.SlotBytes)[at] ^ 1}, l.offset(1)+int64(at))
				return err
			})
			dropCache(t, path)
			s := openStore(t, Options{Dir: dir})
			a := openArena(t, s, largeGeometry)
			if _, err := a.Bring(1); !errors.Is(err, ErrTorn) || a.Valid(1) {
				t.Errorf("%v", err)
			}
			bring(t, a, 1, 0)
		})
		t.Run(fmt.Sprintf("unreadable at piece %d", i), func(t *testing.T) {
			t.Parallel()
			dir, _ := packed(t, largeGeometry, 1)
			f := &faults{system: realSystem{}, kind: "populate", first: i + 1, last: i + 1, err: errFault}
			s := openStore(t, Options{Dir: dir, system: f})
			a := openArena(t, s, largeGeometry)
			if _, err := a.Bring(1); !errors.Is(err, ErrTorn) || a.Valid(1) || !f.reached() {
				t.Errorf("%v", err)
			}
		})
	}
}

// A very large slot is read in larger pieces.
func TestMostPieces(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int64{1, 4096, hugePage, hugePage + 1, mostPieces * hugePage, mostPieces*hugePage + 1, 1 << 40} {
		piece := pieceOf(bytes)
		if n := (bytes + piece - 1) / piece; piece%hugePage != 0 || n > mostPieces || n > 1 && piece > 2*max(hugePage, bytes/mostPieces) {
			t.Errorf("%d bytes in %d pieces of %d", bytes, n, piece)
		}
	}
}
