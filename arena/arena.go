// Package arena owns file-backed memory: one mapped file per (layer, part) with one slot per expert, its residency, and the
// anonymous memory that replaces it when there is no file. It must not know what the bytes mean.
//
// A file is a header (layout.go) and slots at fixed offsets, a multiple of 2 MiB apart, in one read-only MAP_SHARED mapping.
// Slots are written with pwrite, so a full disk is an error of the write and never a SIGBUS. A slot is allocated, written,
// synced, then marked in the header, and the mark is synced: a crash leaves unmarked slots, never wrong ones. A slot found
// marked at a start is verified against its checksum when it is first brought in.
//
// Slots that find no room in the file lie in anonymous memory, per slot: what the disk holds stays on disk, no address
// changes, and the next start reuses what is there.
//
// Packing is done on the caller's thread, which carries the memory policy that decides where pages go (package numa). Reading may be
// helped by other threads: a process that wants a policy starts with it (numa.ExecPinned), so that all have it.
package arena

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Key names one arena file.
type Key struct{ Layer, Part int }

func (k Key) String() string { return fmt.Sprintf("layer %d part %d", k.Layer, k.Part) }

// Geometry is the shape of one arena file.
type Geometry struct {
	Slots     int // one for every expert of the layer
	SlotBytes int // packed bytes of one slot; the stride in a file is rounded up to 2 MiB
}

// Errors that callers decide by (errors.Is).
var (
	// ErrTorn is the error of Bring for a slot whose bytes don't have its checksum (or can't be read from the disk at all); the
	// slot is unmarked then.
	ErrTorn = errors.New("torn slot")
	// ErrTruncated is the error when the file became shorter underneath.
	ErrTruncated = errors.New("arena file was truncated")
	// ErrNotFilled is the error for a slot that Fill has not written.
	ErrNotFilled = errors.New("slot is not filled")
	// ErrClosed is the error of every call after Close.
	ErrClosed = errors.New("arena is closed")
)

// Bits of a slot's state.
const (
	marked     uint32 = 1 << iota // the bytes are complete
	verified                      // the checksum held in this process, or the slot was written by it
	populated                     // its pages were entered into the page table since it was filled or evicted
	inMemory                      // it lies in anonymous memory
	reused                        // it was found at the start
	wasTorn                       // not marked because its checksum failed
	wasCut                        // not marked because the file was truncated
	locked                        // locked in memory
	unlockable                    // to be locked, but there was no room
)

type slot struct {
	state atomic.Uint32
	place atomic.Int32 // in anonymous memory
	sum   atomic.Uint64
	// inked: the file may hold a mark of it, which must be gone from the disk before its bytes change; under Arena.changing
	inked bool
}

// Arena is one mapped file, anonymous memory in its place, or both where the disk was full. Its methods may be called by
// several goroutines; a slot must not be filled or punched while others compute on it.
type Arena struct {
	store     *Store
	key       Key
	layout    layout
	path      string
	slots     []slot
	gate      *gate
	changing  sync.Mutex // one Fill or Punch at a time
	file      file       // nil: anonymous only
	mapping   []byte     // the file's slots
	hugeReads bool       // a fault in the mapping reads a whole huge page
	places    places     // of slots in memory; changed under changing
	memory    atomic.Pointer[[]byte]
	fellBack  atomic.Bool
}

// Geometry gives the shape that the arena was opened with.
func (a *Arena) Geometry() Geometry {
	return Geometry{Slots: a.layout.slots, SlotBytes: int(a.layout.slotBytes)}
}

// Anonymous says whether there is no file behind the arena, or not behind all of its slots.
func (a *Arena) Anonymous() bool { return a.memory.Load() != nil }

// InFile says whether a slot is valid and lies in the file: what doesn't is always resident.
func (a *Arena) InFile(slot int) bool { return slot >= 0 && slot < len(a.slots) && a.inFile(slot) }

// Mappings gives the whole mappings (slots that are not filled included) for calls that set a policy: made per slot, these
// would split the mapping into hundreds. Memory for slots that a full disk turned away is mapped by Fill when needed.
func (a *Arena) Mappings() [][]byte {
	if !a.gate.enter() {
		return nil
	}
	defer a.gate.leave()
	var all [][]byte
	if a.mapping != nil {
		all = append(all, a.mapping)
	}
	if m := a.memory.Load(); m != nil {
		all = append(all, *m)
	}
	return all
}

// Valid says whether the slot is marked: its bytes were completely written under this identity.
func (a *Arena) Valid(slot int) bool {
	return slot >= 0 && slot < len(a.slots) && a.slots[slot].state.Load()&marked != 0
}

// Bytes gives a slot's packed bytes inside the mapping, or nil for a slot that is not valid or after Close. The address never
// changes until the slot is filled again or punched. The bytes must not be written; they may fault when the file is truncated
// underneath (debug.SetPanicOnFault).
func (a *Arena) Bytes(slot int) []byte {
	if slot < 0 || slot >= len(a.slots) || !a.gate.enter() {
		return nil
	}
	defer a.gate.leave()
	state := a.slots[slot].state.Load()
	if state&marked == 0 {
		return nil
	}
	return a.bytes(slot, state)
}

func (a *Arena) bytes(slot int, state uint32) []byte {
	n := a.layout.slotBytes
	if state&inMemory != 0 {
		at := int64(a.slots[slot].place.Load()) * a.layout.packed
		return (*a.memory.Load())[at : at+n : at+n]
	}
	at := int64(slot) * a.layout.stride
	return a.mapping[at : at+n : at+n]
}

// enter checks the slot number and keeps the arena open; a.gate.leave() must follow if err is nil.
func (a *Arena) enter(slot int) error {
	if err := a.exists(slot); err != nil {
		return err
	}
	if !a.gate.enter() {
		return a.shut()
	}
	return nil
}

func (a *Arena) exists(slot int) error {
	if slot < 0 || slot >= len(a.slots) {
		return fmt.Errorf("arena %v: slot %d does not exist, valid are 0 to %d", a.key, slot, len(a.slots)-1)
	}
	return nil
}

func (a *Arena) shut() error { return fmt.Errorf("arena %v: %w", a.key, ErrClosed) }

// unmark takes the marked bit away and remembers why; false if another caller was first. The counters follow.
func (a *Arena) unmark(slot int, why uint32) bool {
	s := &a.slots[slot].state
	for {
		old := s.Load()
		if old&marked == 0 {
			return false
		}
		if s.CompareAndSwap(old, why) {
			a.store.count.bytes.Add(-a.layout.slotBytes)
			if old&reused != 0 {
				a.store.count.reused.Add(-a.layout.slotBytes)
			}
			a.unpin(slot, old)
			return true
		}
	}
}

// mark sets a slot that this process has filled.
func (a *Arena) mark(slot int, where uint32) {
	a.slots[slot].state.Store(marked | verified | where)
	a.store.count.bytes.Add(a.layout.slotBytes)
	a.store.count.packed.Add(a.layout.slotBytes)
}

// absent is the error for a slot that is not marked.
func (a *Arena) absent(slot int, state uint32) error {
	why := ErrNotFilled
	switch {
	case state&wasTorn != 0:
		why = ErrTorn
	case state&wasCut != 0:
		why = ErrTruncated
	}
	return fmt.Errorf("arena %v, slot %d%s: %w", a.key, slot, a.in(), why)
}

func (a *Arena) in() string {
	if a.path == "" {
		return ""
	}
	return " of " + a.path
}

// close waits for the calls inside and unmaps; it is called once.
func (a *Arena) close() error {
	a.gate.shut()
	var errs []error
	if a.mapping != nil {
		errs = append(errs, a.store.sys.unmap(a.mapping))
	}
	if m := a.memory.Load(); m != nil {
		errs = append(errs, a.store.sys.unmap(*m))
	}
	if a.file != nil {
		errs = append(errs, a.file.close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("arena %v: closing: %w", a.key, err)
	}
	return nil
}
