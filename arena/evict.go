package arena

import (
	"errors"
	"fmt"
)

// Punch gives the space of slots back and unmarks them; slots that are not valid are only released. Nobody may compute on them.
// Many slots at once are cheaper: their marks are taken off the disk with one sync.
func (a *Arena) Punch(slots ...int) error {
	for _, slot := range slots {
		if err := a.exists(slot); err != nil {
			return err
		}
	}
	if !a.gate.enter() {
		return a.shut()
	}
	defer a.gate.leave()
	a.changing.Lock()
	defer a.changing.Unlock()
	wasInFile := false
	for _, slot := range slots {
		wasInFile = wasInFile || a.inFile(slot)
		a.vacate(slot)
	}
	if a.file == nil {
		return nil
	}
	if err := a.punchFile(slots); err != nil && wasInFile {
		return err // else the file held no bytes of them, and its disk may well be broken
	}
	return nil
}

func (a *Arena) punchFile(slots []int) error {
	if err := a.erase(slots); err != nil {
		return fmt.Errorf("arena %v: %w", a.key, err)
	}
	for _, slot := range slots {
		err := a.file.punch(a.layout.offset(slot), a.layout.stride)
		if errors.Is(err, errors.ErrUnsupported) {
			a.store.sayOnce("punch", "arena folder %s: its file system can't give the room of single experts back", a.store.dir)
			return nil
		}
		if err != nil {
			return fmt.Errorf("arena %v: giving back the room of slot %d of %s: %w", a.key, slot, a.path, err)
		}
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
	a.unpin(slot, clearBits(s, locked|unlockable)) // the kernel refuses to unmap locked pages
	// Mapped pages are not dropped from the page cache, so they leave the page table first: up to the next slot, because a fault may
	// have mapped more than it asked for, and one mapped page keeps the whole huge page.
	if err := a.store.sys.forget(a.around(slot, state)); err != nil {
		return fmt.Errorf("arena %v: unmapping the pages of slot %d: %w", a.key, slot, err)
	}
	clearBits(s, populated)
	if err := a.file.drop(a.layout.offset(slot), a.layout.stride); err != nil {
		return fmt.Errorf("arena %v: dropping the pages of slot %d of %s: %w", a.key, slot, a.path, err)
	}
	return nil
}
