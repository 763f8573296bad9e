package arena

import (
	"errors"
	"slices"
	"testing"

	"github.com/moepool/moepool/internal/ondisk"
)

// A file that is cut while it is mapped is an error of the slots that it cut, and Fill restores it at the same addresses.
func TestTruncatedWhileRunning(t *testing.T) {
	t.Parallel()
	l, err := newLayout(odd)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		size int64
		left []int
	}{
		"to nothing":          {0, nil},
		"in the header":       {100, nil},
		"before slot 0":       {l.first, nil},
		"in slot 3":           {l.offset(3) + 5, []int{0, 1}},
		"last byte of slot 3": {l.offset(3) + l.slotBytes - 1, []int{0, 1}},
		"after slot 3":        {l.offset(3) + l.slotBytes, []int{0, 1, 3}},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dir := ondisk.Folder(t)
				s := openStore(t, Options{Dir: dir})
				a := openArena(t, s, odd)
				fill(t, a, 1, 0, 1, 3)
				if restart { // slots that were not verified yet
					closeStore(t, s)
					s = openStore(t, Options{Dir: dir})
					a = openArena(t, s, odd)
				} else {
					bring(t, a, 1, 0, 1, 3)
				}
				place := a.Bytes(3)
				truncate(t, a.path, c.size)
				var lost []int
				for _, slot := range []int{0, 1, 3} {
					if slices.Contains(c.left, slot) {
						bring(t, a, 1, slot)
						continue
					}
					lost = append(lost, slot)
					for range 2 {
						if _, err := a.Bring(slot); !errors.Is(err, ErrTruncated) {
							t.Errorf("slot %d: %v", slot, err)
						}
					}
					if a.Valid(slot) || a.Bytes(slot) != nil {
						t.Errorf("slot %d is still served", slot)
					}
				}
				if c := s.Counters(); c.Bytes != int64(3-len(lost))*l.slotBytes || c.TornSlots != 0 {
					t.Errorf("%+v", c)
				}
				if len(lost) > 0 {
					fill(t, a, 1, lost...)
				}
				bring(t, a, 1, 0, 1, 3)
				if &a.Bytes(3)[0] != &place[0] {
					t.Error("the address changed")
				}
				fill(t, a, 2, 2)
				bring(t, a, 2, 2)
				closeStore(t, s)
				s = openStore(t, Options{Dir: dir})
				a = openArena(t, s, odd)
				bring(t, a, 1, 0, 1, 3)
				bring(t, a, 2, 2)
				if c := s.Counters(); c.TornSlots != 0 || c.RebuiltFiles != 0 || c.Fallbacks != 0 {
					t.Errorf("%+v", c)
				}
			})
		}
	}
}

// A cut between the look at the file's size and the reads (a size that lies stands for it) faults in the kernel or in the
// checksum, and is the same error.
func TestTruncatedUnderneath(t *testing.T) {
	t.Parallel()
	dir, path := packed(t, odd, 0, 3)
	s := openStore(t, Options{Dir: dir, system: liar{realSystem{}}})
	a := openArena(t, s, odd)
	a.file.(*liarFile).lies = 1
	truncate(t, path, a.layout.offset(3)+100)
	if _, err := a.Bring(3); !errors.Is(err, ErrTruncated) {
		t.Errorf("populating: %v", err)
	}
	bring(t, a, 1, 0)

	data := a.mapping[a.layout.stride*3:]
	if err := a.verify(3, data[:a.layout.slotBytes]); !errors.Is(err, ErrTruncated) {
		t.Errorf("reading: %v", err)
	}
}

// liar's files say once that they are longer than they are.
type liar struct{ realSystem }

type liarFile struct {
	file
	lies int
}

func (l liar) open(path string, create bool) (file, error) {
	f, err := l.realSystem.open(path, create)
	if err != nil {
		return nil, err
	}
	return &liarFile{file: f}, nil
}

func (f *liarFile) size() (int64, error) {
	if f.lies > 0 {
		f.lies--
		return 1 << 40, nil
	}
	return f.file.size()
}
