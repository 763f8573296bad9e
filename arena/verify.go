package arena

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Verified is what VerifyAll found.
type Verified struct {
	Slots int   `json:"slots"` // whose checksum was compared
	Bytes int64 `json:"bytes"`
	Bad   []Bad `json:"bad"` // torn or truncated; unmarked now
}

// Bad is a slot whose bytes in the file are not what was written.
type Bad struct {
	File string `json:"file"`
	Slot int    `json:"slot"`
	Err  string `json:"error"`
}

// VerifyAll reads every valid slot of the open files and compares its checksum, whether it was verified before or not. progress
// (may be nil) gets bytes. Bad slots are unmarked and listed; the error is of ctx or of a closed store only.
func (s *Store) VerifyAll(ctx context.Context, progress func(done, total int64)) (Verified, error) {
	var v Verified
	arenas := s.all()
	slices.SortFunc(arenas, func(a, b *Arena) int {
		if a.key.Layer != b.key.Layer {
			return a.key.Layer - b.key.Layer
		}
		return a.key.Part - b.key.Part
	})
	var total int64
	for _, a := range arenas {
		for i := range a.slots {
			if a.inFile(i) {
				total += a.layout.slotBytes
			}
		}
	}
	v.Bad = []Bad{}
	for _, a := range arenas {
		for i := range a.slots {
			if !a.inFile(i) {
				continue
			}
			err := a.compare(ctx, i)
			if errors.Is(err, ErrClosed) || ctx.Err() != nil {
				return v, errors.Join(err, ctx.Err())
			}
			if errors.Is(err, ErrNotFilled) {
				continue // punched meanwhile
			}
			if err != nil {
				v.Bad = append(v.Bad, Bad{File: a.path, Slot: i, Err: err.Error()})
			}
			v.Slots++
			v.Bytes += a.layout.slotBytes
			if progress != nil {
				progress(v.Bytes, total)
			}
		}
	}
	return v, nil
}

func (a *Arena) inFile(slot int) bool {
	state := a.slots[slot].state.Load()
	return state&marked != 0 && state&inMemory == 0
}

// compare verifies one slot by reading the file.
func (a *Arena) compare(ctx context.Context, slot int) error {
	if err := a.enter(slot); err != nil {
		return err
	}
	defer a.gate.leave()
	if !a.inFile(slot) {
		return a.absent(slot, a.slots[slot].state.Load())
	}
	sum := xxhash.New()
	err := a.readThrough(slot, 0, a.layout.slotBytes, func(piece []byte) error {
		_, _ = sum.Write(piece) // never fails
		return ctx.Err()
	})
	if ctx.Err() != nil {
		return fmt.Errorf("arena %v: verifying: %w", a.key, ctx.Err())
	}
	if err != nil {
		return a.unreadable(slot, err)
	}
	return a.judge(slot, sum.Sum64())
}
