package arena

import (
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Fill writes the listed slots: space is allocated, fill(slot, dst) stores the SlotBytes (dst is zeroed or holds another slot's
// bytes), data is synced, slots are marked with their checksum, marks are synced. fill is called on the caller's thread, which
// carries the wanted memory policy, one slot after the other; it may use others to do its work. Fills of one arena queue.
//
// An error of fill (or lack of address space) is returned as it is and leaves all listed slots unmarked. Where the disk is full or fails, slots get
// anonymous memory (a fallback) and Fill goes on; fill may then be called a second time for a slot. Slots that were filled
// before keep their bytes and their place.
func (a *Arena) Fill(slots []int, fill func(slot int, dst []byte) error) error {
	if len(slots) == 0 {
		return nil
	}
	if err := a.checkList(slots); err != nil {
		return err
	}
	if !a.gate.enter() {
		return a.shut()
	}
	defer a.gate.leave()
	a.changing.Lock()
	defer a.changing.Unlock()

	rest := slots
	if a.file != nil {
		var err error
		if rest, err = a.fillFile(slots, fill); err != nil {
			return err
		}
	}
	if err := a.fillMemory(rest, fill); err != nil {
		written := slots[:len(slots)-len(rest)]
		for _, slot := range written {
			a.vacate(slot)
		}
		if a.file != nil {
			a.release(written)
		}
		return err
	}
	return nil
}

func (a *Arena) checkList(slots []int) error {
	listed := make(map[int]bool, len(slots))
	for _, s := range slots {
		if err := a.exists(s); err != nil {
			return err
		}
		if listed[s] {
			return fmt.Errorf("arena %v: slot %d is listed twice", a.key, s)
		}
		listed[s] = true
	}
	return nil
}

// fillError is an error of the caller's fill function, which is not the disk's.
type fillError struct{ error }

// fillFile fills the slots in the file. rest are those that the disk refused.
func (a *Arena) fillFile(slots []int, fill func(int, []byte) error) (rest []int, err error) {
	if err := a.prepare(slots); err != nil {
		a.fallBack(err)
		return slots, nil
	}
	buffer, free, err := a.buffer()
	if err != nil {
		return nil, err
	}
	defer free()
	done := 0
	for _, slot := range slots {
		if err = a.writeSlot(slot, buffer, fill); err != nil {
			break
		}
		done++
	}
	if own := (fillError{}); errors.As(err, &own) {
		a.release(slots[:done+1])
		return nil, own.error
	}
	if err != nil {
		a.release(slots[done : done+1])
		a.fallBack(err)
	}
	if err := a.commit(slots[:done]); err != nil {
		a.release(slots[:done])
		a.fallBack(err)
		return slots, nil
	}
	return slots[done:], nil
}

// prepare restores a file that was truncated and unmarks the slots to be written, on disk as well.
func (a *Arena) prepare(slots []int) error {
	if err := a.restore(); err != nil {
		return fmt.Errorf("restoring %s after it was truncated: %w", a.path, err)
	}
	for _, slot := range slots {
		a.vacate(slot)
	}
	return a.erase(slots)
}

// erase takes the marks of slots off the disk.
func (a *Arena) erase(slots []int) error {
	var inked []int
	for _, slot := range slots {
		if a.slots[slot].inked {
			inked = append(inked, slot)
			if err := a.writeMark(slot, 0, 0); err != nil {
				return err
			}
		}
	}
	if len(inked) == 0 {
		return nil
	}
	if err := a.sync(); err != nil {
		return err
	}
	for _, slot := range inked {
		a.slots[slot].inked = false
	}
	return nil
}

// restore gives a truncated file its size and header back; the slots that were cut are unmarked.
func (a *Arena) restore() error {
	size, err := a.file.size()
	if err != nil || size >= a.layout.size {
		return err
	}
	for i := range a.slots {
		a.dropCut(i, size)
	}
	// With its size the file would be taken up at a start: the marks of the cut slots go first.
	if err := a.writeHeader(a.file); err != nil {
		return err
	}
	if err := a.sync(); err != nil {
		return err
	}
	if err := a.setSize(a.file); err != nil {
		return err
	}
	if err := a.sync(); err != nil {
		return err
	}
	for i := range a.slots {
		a.slots[i].inked = a.inFile(i)
	}
	return nil
}

// dropCut unmarks a slot that doesn't lie within size bytes of the file; true if it was so.
func (a *Arena) dropCut(slot int, size int64) bool {
	if a.slots[slot].state.Load()&inMemory != 0 || a.layout.offset(slot)+a.layout.slotBytes <= size {
		return false
	}
	a.unmark(slot, wasCut)
	return true
}

func (a *Arena) buffer() ([]byte, func(), error) {
	b, err := a.store.sys.reserve(a.layout.packed, a.layout.packed >= hugePage, "moepool packing")
	if err != nil {
		return nil, nil, fmt.Errorf("arena %v: mapping %d bytes to pack a slot in: %w", a.key, a.layout.packed, err)
	}
	return b, func() { _ = a.store.sys.unmap(b) }, nil
}

// writeSlot allocates a slot, has it filled into the buffer and writes it out in one piece: in large pieces ext4 gives it
// large folios, which are mapped as huge pages.
func (a *Arena) writeSlot(slot int, buffer []byte, fill func(int, []byte) error) error {
	at := a.layout.offset(slot)
	if err := a.file.allocate(at, a.layout.packed); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("allocating %d bytes for slot %d of %s: %w", a.layout.packed, slot, a.path, err)
	}
	data := buffer[:a.layout.slotBytes:a.layout.slotBytes]
	if err := fill(slot, data); err != nil {
		return fillError{err}
	}
	a.slots[slot].sum.Store(xxhash.Sum64(data))
	if err := a.file.writeAt(buffer[:a.layout.packed], at); err != nil {
		return fmt.Errorf("writing slot %d of %s: %w", slot, a.path, err)
	}
	return nil
}

// commit makes written slots valid: data first, then the marks.
func (a *Arena) commit(slots []int) error {
	if len(slots) == 0 {
		return nil
	}
	if err := a.sync(); err != nil {
		return err
	}
	for _, slot := range slots {
		a.slots[slot].inked = true
		if err := a.writeMark(slot, stateMarked, a.slots[slot].sum.Load()); err != nil {
			return err
		}
	}
	if err := a.sync(); err != nil {
		return err
	}
	for _, slot := range slots {
		a.mark(slot, 0)
	}
	return nil
}

// release gives back the room of slots that were not completed; a failure costs only room.
func (a *Arena) release(slots []int) {
	if a.erase(slots) != nil {
		return
	}
	for _, slot := range slots {
		_ = a.file.punch(a.layout.offset(slot), a.layout.packed)
	}
}

func (a *Arena) writeMark(slot int, state, sum uint64) error {
	if err := a.file.writeAt(entry(a.store.identity, slot, state, sum), entryOffset(slot)); err != nil {
		return fmt.Errorf("writing the mark of slot %d of %s: %w", slot, a.path, err)
	}
	return nil
}

func (a *Arena) sync() error {
	if err := a.file.sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", a.path, err)
	}
	return nil
}

// fillMemory fills the slots in anonymous memory.
func (a *Arena) fillMemory(slots []int, fill func(int, []byte) error) error {
	if len(slots) == 0 {
		return nil
	}
	if err := a.reserve(); err != nil {
		return err
	}
	for _, slot := range slots {
		a.vacate(slot)
	}
	for i, slot := range slots {
		a.slots[slot].place.Store(a.places.take())
		if err := fill(slot, a.bytes(slot, inMemory)); err != nil {
			a.leaveMemory(slot)
			for _, done := range slots[:i] {
				a.vacate(done)
			}
			return err
		}
		a.mark(slot, inMemory)
	}
	return nil
}

// vacate unmarks a slot in memory and gives its anonymous memory back, if it has some.
func (a *Arena) vacate(slot int) {
	state := a.slots[slot].state.Load()
	a.unmark(slot, 0)
	if state&inMemory != 0 {
		a.leaveMemory(slot)
	}
}

func (a *Arena) leaveMemory(slot int) {
	place := a.slots[slot].place.Load()
	at := int64(place) * a.layout.packed
	_ = a.store.sys.forget((*a.memory.Load())[at : at+a.layout.packed]) // a failure costs memory only; fill overwrites all
	a.places.free = append(a.places.free, place)
}

// places hands out places in anonymous memory, one after the other: slots that are filled lie side by side, so that huge pages
// are not shared with slots that other workers own.
type places struct {
	next int32
	free []int32
}

func (p *places) take() int32 {
	if n := len(p.free); n > 0 {
		place := p.free[n-1]
		p.free = p.free[:n-1]
		return place
	}
	p.next++
	return p.next - 1
}
