package arena

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVerifyAll(t *testing.T) {
	t.Parallel()
	dir, path := packed(t, odd, 0, 1, 3, 4)
	l, _ := newLayout(odd)
	flipAt(t, path, l.offset(1)+2<<20+77)
	s := openStore(t, Options{Dir: dir})
	a := openArena(t, s, odd)
	b, err := s.Open(Key{Layer: 1}, small)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, b, 1, 2)
	bring(t, a, 1, 3)
	flipAt(t, path, l.offset(3)) // after it was verified
	var steps []int64
	total := 4*l.slotBytes + int64(small.SlotBytes)
	v, err := s.VerifyAll(t.Context(), func(done, of int64) {
		if of != total {
			t.Errorf("of %d, want %d", of, total)
		}
		steps = append(steps, done)
	})
	if err != nil {
		t.Fatal(err)
	}
	var bad []int
	for _, b := range v.Bad {
		if b.File != path || b.Err == "" {
			t.Errorf("%+v", b)
		}
		bad = append(bad, b.Slot)
	}
	if !cmp.Equal(bad, []int{1, 3}) || v.Slots != 5 || v.Bytes != total || len(steps) != 5 || steps[4] != total {
		t.Errorf("%+v, %v", v, steps)
	}
	if a.Valid(1) || a.Valid(3) || !a.Valid(0) || !a.Valid(4) {
		t.Error("torn slots are valid")
	}
	if _, err := a.Bring(1); !errors.Is(err, ErrTorn) {
		t.Error(err)
	}
	if c := s.Counters(); c.TornSlots != 2 || c.VerifiedSlots != 3 { // 3 by Bring, 0 and 4 here
		t.Errorf("%+v", c)
	}
	fill(t, a, 1, 1, 3)
	if v, err = s.VerifyAll(t.Context(), nil); err != nil || len(v.Bad) != 0 || v.Slots != 5 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := os.Truncate(path, l.offset(4)+100); err != nil {
		t.Fatal(err)
	}
	if v, err = s.VerifyAll(t.Context(), nil); err != nil || len(v.Bad) != 1 || v.Bad[0].Slot != 4 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := a.Bring(4); !errors.Is(err, ErrTruncated) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = s.VerifyAll(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if !a.Valid(0) {
		t.Error("a slot was torn by a cancelled verification")
	}
	closeStore(t, s)
	if _, err = s.VerifyAll(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
