package arena

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
)

// Several threads bring and read slots while others are evicted, filled and punched.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	g := Geometry{Slots: 12, SlotBytes: 70001}
	dir, _ := packed(t, g, 0, 1, 2, 3, 4, 5)
	for _, o := range []Options{{Dir: dir}, {}} {
		s := openStore(t, o)
		a := openArena(t, s, g)
		if a.Anonymous() {
			fill(t, a, 1, 0, 1, 2, 3, 4, 5)
		}
		var group sync.WaitGroup
		for worker := range 6 {
			group.Go(func() {
				r := rand.New(rand.NewPCG(uint64(worker), 1))
				for range 200 {
					slot := r.IntN(6)
					if _, err := a.Bring(slot); err != nil {
						t.Error(err)
						return
					}
					if !bytes.Equal(a.Bytes(slot), content(slot, 1, g.SlotBytes)) {
						t.Errorf("slot %d differs", slot)
						return
					}
					a.Resident(slot)
					if worker == 0 {
						if err := a.Evict(slot); err != nil {
							t.Error(err)
						}
						s.Counters()
					}
				}
			})
		}
		for worker := range 2 {
			group.Go(func() {
				for round := range 5 {
					mine := []int{6 + 3*worker, 7 + 3*worker, 8 + 3*worker}
					if err := a.Fill(mine, filler(2)); err != nil {
						t.Error(err)
					}
					for _, slot := range mine {
						if _, err := a.Bring(slot); err != nil || !bytes.Equal(a.Bytes(slot), content(slot, 2, g.SlotBytes)) {
							t.Errorf("slot %d: %v", slot, err)
						}
						if round%2 == 0 {
							if err := a.Punch(slot); err != nil {
								t.Error(err)
							}
						}
					}
				}
			})
		}
		group.Wait()
		if c := s.Counters(); c.Bytes != 6*int64(g.SlotBytes) || c.TornSlots != 0 {
			t.Errorf("%+v", c)
		}
		closeStore(t, s)
	}
}

// Many callers that find one slot torn get the same error, and it is counted once.
func TestConcurrentTear(t *testing.T) {
	t.Parallel()
	dir, path := packed(t, odd, 2)
	l, _ := newLayout(odd)
	flipAt(t, path, l.offset(2))
	s := openStore(t, Options{Dir: dir})
	a := openArena(t, s, odd)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := a.Bring(2); !errors.Is(err, ErrTorn) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if c := s.Counters(); c.TornSlots != 1 || c.Bytes != 0 || c.ReusedBytes != 0 {
		t.Errorf("%+v", c)
	}
}

// Opening and counting go on while others do.
func TestConcurrentOpen(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{Dir: t.TempDir()})
	var group sync.WaitGroup
	for layer := range 8 {
		group.Go(func() {
			for part := range 2 {
				a, err := s.Open(Key{layer / 2, part}, small)
				if err != nil {
					t.Error(err)
					return
				}
				if err := a.Fill([]int{layer % 2}, filler(1)); err != nil {
					t.Error(err)
				}
				s.Counters()
			}
		})
	}
	group.Wait()
	if c := s.Counters(); c.Files != 8 || c.Bytes != 16*int64(small.SlotBytes) || c.Fallbacks != 0 {
		t.Errorf("%+v", c)
	}
}
