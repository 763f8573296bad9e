package arena

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/moepool/moepool/internal/bytesize"
)

// locks is the account of what a store has locked in memory (Options.MLock). A slot is locked when it is brought and unlocked when it
// is evicted, punched or found damaged. Neighbours that are locked share one mapping of the kernel's, so that a store whose slots are
// all locked doesn't split its mappings.
type locks struct {
	wanted bool
	mu     sync.Mutex
	room   int64  // bytes that may be locked
	why    string // what limits it
	used   int64  // with the gaps between slots, as the kernel counts
	locked int64  // packed bytes
	// refused: packed bytes of slots that are in memory, but not locked
	refused int64
}

// setUpLocks finds out how much may be locked, before anything is: beyond RLIMIT_MEMLOCK the kernel refuses, beyond the control
// group's limit it kills.
func (s *Store) setUpLocks(limit int64) {
	s.locks.wanted = true
	s.locks.room, s.locks.why = s.sys.lockRoom()
	if limit > 0 && limit < s.locks.room {
		s.locks.room, s.locks.why = limit, fmt.Sprintf("at most %s were asked for", bytesize.Text(limit))
	}
}

// pin locks a slot's pages, which are in memory, if there is room for it.
func (a *Arena) pin(slot int) {
	l := &a.store.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &a.slots[slot].state
	state := s.Load()
	if state&marked == 0 || state&locked != 0 {
		return
	}
	around := a.around(slot, state)
	n := int64(len(around))
	if err := l.take(a.store.sys, around); err != nil {
		if setBits(s, unlockable)&unlockable == 0 {
			l.refused += a.layout.packed
		}
		a.store.sayOnce("mlock", "not all experts can be locked in memory; the kernel may take the others back (counted as lock_refused_bytes): %v", err)
		return
	}
	l.used += n
	l.locked += a.layout.packed
	old := setBits(s, locked)
	switch {
	case old&marked == 0: // unmarked meanwhile
		a.drop(l, slot, state|locked)
	case old&unlockable != 0 && clearBits(s, unlockable)&unlockable != 0:
		l.refused -= a.layout.packed
	}
}

func (l *locks) take(sys system, around []byte) error {
	if n := int64(len(around)); l.used+n > l.room {
		return fmt.Errorf("%s are locked and may be (%s), an expert takes %s", bytesize.Text(l.used), l.why, bytesize.Text(n))
	}
	return sys.lock(around)
}

// unpin takes back what pin did for a slot whose state was old; the caller took its bits away.
func (a *Arena) unpin(slot int, old uint32) {
	if old&(locked|unlockable) == 0 {
		return
	}
	l := &a.store.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	a.drop(l, slot, old)
}

func (a *Arena) drop(l *locks, slot int, old uint32) {
	if old&unlockable != 0 {
		l.refused -= a.layout.packed
	}
	if old&locked == 0 {
		return
	}
	around := a.around(slot, old)
	if err := a.store.sys.unlock(around); err != nil {
		a.store.sayOnce("munlock", "arena %v: unlocking slot %d: %v", a.key, slot, err)
	}
	l.used -= int64(len(around))
	l.locked -= a.layout.packed
}

// setBits gives the former state; bits of a slot that is not marked are not set.
func setBits(s *atomic.Uint32, bits uint32) (old uint32) {
	for {
		old = s.Load()
		if old&marked == 0 || s.CompareAndSwap(old, old|bits) {
			return old
		}
	}
}

// clearBits gives the former state.
func clearBits(s *atomic.Uint32, bits uint32) (old uint32) { return s.And(^bits) }

// around gives a slot's memory up to the next slot.
func (a *Arena) around(slot int, state uint32) []byte {
	if state&inMemory != 0 {
		at := int64(a.slots[slot].place.Load()) * a.layout.packed
		return (*a.memory.Load())[at : at+a.layout.packed]
	}
	at := int64(slot) * a.layout.stride
	return a.mapping[at : at+a.layout.stride]
}
