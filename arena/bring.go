package arena

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Bring makes a slot resident as a whole and verifies its checksum the first time after a start. hit says whether it was
// resident already. Errors (errors.Is): ErrTorn, ErrTruncated, ErrNotFilled; the caller rebuilds with Fill. The pages go where
// the calling thread's memory policy says.
func (a *Arena) Bring(slot int) (hit bool, err error) { return a.bring(slot, true) }

// Ready is Bring for a slot that is resident; for one that isn't, ready is false and nothing was read.
func (a *Arena) Ready(slot int) (ready bool, err error) { return a.bring(slot, false) }

// bring is Bring, or, without read, Ready.
func (a *Arena) bring(slot int, read bool) (hit bool, err error) {
	if err := a.enter(slot); err != nil {
		return false, err
	}
	defer a.gate.leave()
	state := a.slots[slot].state.Load()
	if state&marked == 0 {
		return false, a.absent(slot, state)
	}
	data := a.bytes(slot, state)
	if state&inMemory == 0 {
		size, err := a.file.size()
		if err != nil {
			return false, fmt.Errorf("arena %v: reading the size of %s: %w", a.key, a.path, err)
		}
		if a.dropCut(slot, size) {
			return false, fmt.Errorf("arena %v, slot %d of %s: %w to %d bytes", a.key, slot, a.path, ErrTruncated, size)
		}
	}
	if hit, err = a.store.sys.resident(data); err != nil {
		return false, fmt.Errorf("arena %v, slot %d: asking for its residency: %w", a.key, slot, err)
	}
	if !hit && !read {
		return false, nil
	}
	check := state&verified == 0
	if !hit || state&populated == 0 {
		sum, err := a.load(slot, state, data, check)
		if err != nil {
			return false, err
		}
		setBits(&a.slots[slot].state, populated)
		if check {
			err = a.judge(slot, sum)
		}
		if err != nil {
			return hit, err
		}
	} else if check {
		if err := a.verify(slot, data); err != nil {
			return hit, err
		}
	}
	if a.store.locks.wanted && state&locked == 0 {
		a.pin(slot)
	}
	return hit, nil
}

// readPiece is what one read through a buffer asks for.
const readPiece = 2 << 20

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readPiece); return &b }}

// readThrough reads a part of a slot of the file, from and to in bytes, piece by piece.
func (a *Arena) readThrough(slot int, from, to int64, each func(piece []byte) error) error {
	buffer := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buffer)
	for done := from; done < to; {
		piece := (*buffer)[:min(readPiece, to-done)]
		if err := a.file.readAt(piece, a.layout.offset(slot)+done); err != nil {
			return err
		}
		if err := each(piece); err != nil {
			return err
		}
		done += int64(len(piece))
	}
	return nil
}

// verify compares a slot with its checksum and unmarks it, on disk too, if it differs.
func (a *Arena) verify(slot int, data []byte) error {
	var sum uint64
	if err := guarded(data, func() { sum = xxhash.Sum64(data) }); err != nil {
		return a.unreadable(slot, err)
	}
	return a.judge(slot, sum)
}

// judge keeps or tears a slot whose bytes have this checksum.
func (a *Arena) judge(slot int, sum uint64) error {
	want := a.slots[slot].sum.Load()
	if sum != want {
		return a.tear(slot, fmt.Sprintf("checksum %016x instead of %016x", sum, want))
	}
	for s := &a.slots[slot].state; ; {
		old := s.Load()
		if old&marked == 0 {
			return a.absent(slot, old)
		}
		if old&verified != 0 {
			return nil
		}
		if s.CompareAndSwap(old, old|verified) {
			a.store.count.verified.Add(1)
			return nil
		}
	}
}

// unreadable finds out why a slot's pages fault: the file was truncated, or the disk can't read them.
func (a *Arena) unreadable(slot int, cause error) error {
	if a.slots[slot].state.Load()&inMemory != 0 {
		return fmt.Errorf("arena %v, slot %d in anonymous memory: %w", a.key, slot, cause)
	}
	size, err := a.file.size()
	if err == nil && a.dropCut(slot, size) {
		return fmt.Errorf("arena %v, slot %d of %s: %w to %d bytes", a.key, slot, a.path, ErrTruncated, size)
	}
	return a.tear(slot, cause.Error())
}

func (a *Arena) tear(slot int, why string) error {
	if !a.unmark(slot, wasTorn) {
		return a.absent(slot, a.slots[slot].state.Load())
	}
	a.store.count.torn.Add(1)
	// Not synced: the checksum would show the slot torn again. Fill syncs before it writes.
	if err := a.writeMark(slot, 0, 0); err != nil {
		why += "; " + err.Error()
	}
	return fmt.Errorf("arena %v, slot %d of %s: %w: %s", a.key, slot, a.path, ErrTorn, why)
}

// guarded runs f, which reads data. A memory fault there becomes an error instead of the process's death.
func guarded(data []byte, f func()) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok || !within(data, fault.Addr()) {
			panic(r)
		}
		err = fmt.Errorf("%w at offset %d", errFault, fault.Addr()-address(data))
	}()
	f()
	return nil
}

// Resident says whether all pages of a slot are in memory (mincore).
func (a *Arena) Resident(slot int) bool {
	if a.enter(slot) != nil {
		return false
	}
	defer a.gate.leave()
	state := a.slots[slot].state.Load()
	if state&marked == 0 {
		return false
	}
	ok, err := a.store.sys.resident(a.bytes(slot, state))
	return ok && err == nil
}
