package arena

import (
	"errors"
	"fmt"
)

// Punch gives a slot's space back and unmarks it; a slot that is not valid is only released. Nobody may compute on it.
func (a *Arena) Punch(slot int) error {
	if err := a.enter(slot); err != nil {
		return err
	}
	defer a.gate.leave()
	a.changing.Lock()
	defer a.changing.Unlock()
	wasInFile := a.inFile(slot)
	a.vacate(slot)
	if a.file == nil {
		return nil
	}
	if err := a.punchFile(slot); err != nil && wasInFile {
		return err // else the file held no bytes of it, and its disk may well be broken
	}
	return nil
}

func (a *Arena) punchFile(slot int) error {
	if err := a.erase([]int{slot}); err != nil {
		return fmt.Errorf("arena %v: %w", a.key, err)
	}
	err := a.file.punch(a.layout.offset(slot), a.layout.stride)
	if errors.Is(err, errors.ErrUnsupported) {
		a.store.sayOnce("punch", "arena folder %s: its file system can't give the room of single experts back", a.store.dir)
		return nil
	}
	if err != nil {
		return fmt.Errorf("arena %v: giving back the room of slot %d of %s: %w", a.key, slot, a.path, err)
	}
	return nil
}

// Evict drops a slot's pages from memory; anonymous slots stay. On tmpfs pages stay as well: they have no other place.
func (a *Arena) Evict(slot int) error {
	if err := a.enter(slot); err != nil {
		return err
	}
	defer a.gate.leave()
	s := &a.slots[slot].state
	state := s.Load()
	if state&marked == 0 || state&inMemory != 0 {
		return nil
	}
	// Mapped pages are not dropped from the page cache, so they leave the page table first.
	if err := a.store.sys.forget(a.bytes(slot, state)); err != nil {
		return fmt.Errorf("arena %v: unmapping the pages of slot %d: %w", a.key, slot, err)
	}
	for old := s.Load(); old&populated != 0 && !s.CompareAndSwap(old, old&^populated); old = s.Load() {
	}
	if err := a.file.drop(a.layout.offset(slot), a.layout.stride); err != nil {
		return fmt.Errorf("arena %v: dropping the pages of slot %d of %s: %w", a.key, slot, a.path, err)
	}
	return nil
}
