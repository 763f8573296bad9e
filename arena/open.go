package arena

import (
	"errors"
	"fmt"
	"io/fs"
)

// openFile takes up the arena's file, or makes a new one where there is none or one that doesn't fit.
func (a *Arena) openFile() error {
	sys := a.store.sys
	f, err := sys.open(a.path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return a.createFile()
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", a.path, err)
	}
	why, err := a.takeUp(f)
	if err == nil && why == "" {
		return a.mapFile(f)
	}
	if why == "" {
		why = err.Error()
	}
	if err := f.close(); err != nil {
		return fmt.Errorf("closing %s: %w", a.path, err)
	}
	a.forgetMarks()
	a.store.count.rebuilt.Add(1)
	a.store.sayOnce("rebuild "+why, "arena file %s is rebuilt: %s", a.path, why)
	// A new file, not the old one cut to size: whoever still maps the old one keeps its pages.
	if err := sys.remove(a.path); err != nil {
		return fmt.Errorf("replacing %s: %w", a.path, err)
	}
	return a.createFile()
}

// takeUp reads the header and the marks of an existing file; why says what doesn't fit.
func (a *Arena) takeUp(f file) (why string, err error) {
	size, err := f.size()
	if err != nil {
		return "", fmt.Errorf("reading its size: %w", err)
	}
	if size < fixedBytes {
		return "it is not an arena file", nil
	}
	found := make([]byte, fixedBytes)
	if err := f.readAt(found, 0); err != nil {
		return "", fmt.Errorf("reading its header: %w", err)
	}
	if why := a.layout.mismatch(found, a.key, a.store.identity); why != "" {
		return why, nil
	}
	if size != a.layout.size {
		return fmt.Sprintf("it has %d bytes instead of %d", size, a.layout.size), nil
	}
	table := make([]byte, a.layout.slots*entryBytes)
	if err := f.readAt(table, tableOffset); err != nil {
		return "", fmt.Errorf("reading its marks: %w", err)
	}
	for i := range a.slots {
		if sum, ok := parseEntry(table[i*entryBytes:][:entryBytes], a.store.identity, i); ok {
			a.slots[i].sum.Store(sum)
			a.slots[i].state.Store(marked | reused)
			a.slots[i].inked = true
			a.store.count.bytes.Add(a.layout.slotBytes)
			a.store.count.reused.Add(a.layout.slotBytes)
		}
	}
	return "", nil
}

// forgetMarks undoes takeUp.
func (a *Arena) forgetMarks() {
	for i := range a.slots {
		a.unmark(i, 0)
		a.slots[i].inked = false
	}
}

func (a *Arena) createFile() error {
	sys := a.store.sys
	f, err := sys.open(a.path, true)
	if err != nil {
		return fmt.Errorf("creating %s: %w", a.path, err)
	}
	err = a.writeHeader(f)
	if err == nil {
		err = a.setSize(f)
	}
	if err == nil {
		err = sys.syncFolder(a.store.dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("creating %s: %w", a.path, err), f.close(), sys.remove(a.path))
	}
	return a.mapFile(f)
}

func (a *Arena) setSize(f file) error {
	if err := f.truncate(a.layout.size); err != nil {
		return fmt.Errorf("setting its size to %d bytes: %w", a.layout.size, err)
	}
	return nil
}

// writeHeader writes header and marks: those of the slots that are marked now.
func (a *Arena) writeHeader(f file) error {
	if err := f.allocate(0, a.layout.headerBytes()); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("allocating its header: %w", err)
	}
	header := make([]byte, a.layout.headerBytes())
	copy(header, a.layout.fixed(a.key, a.store.identity))
	for i := range a.slots {
		if s := a.slots[i].state.Load(); s&marked != 0 && s&inMemory == 0 {
			copy(header[entryOffset(i):], entry(a.store.identity, i, stateMarked, a.slots[i].sum.Load()))
		}
	}
	if err := f.writeAt(header, 0); err != nil {
		return fmt.Errorf("writing its header: %w", err)
	}
	return nil
}

// mapFile maps the slots. The file is closed if that is refused.
func (a *Arena) mapFile(f file) error {
	m, hugeReads, err := f.mapShared(a.layout.first, a.layout.size-a.layout.first)
	if err != nil {
		a.forgetMarks()
		return errors.Join(fmt.Errorf("mapping %s: %w", a.path, err), f.close())
	}
	if a.store.smallPages {
		hugeReads = false
		_ = a.store.sys.smallPages(m) // a kernel without huge pages refuses it
	}
	a.file, a.mapping, a.hugeReads = f, m, hugeReads
	return nil
}

// fallBack counts and says that slots of this arena get anonymous memory though a folder was asked for.
func (a *Arena) fallBack(err error) {
	if a.fellBack.CompareAndSwap(false, true) {
		a.store.count.fallbacks.Add(1)
	}
	a.store.sayOnce("fallback", "arena %v: experts are kept in anonymous memory instead of a file (further ones are only counted): %v",
		a.key, err)
}

// reserve maps the arena's anonymous memory if it isn't yet. Slots lie a whole number of pages apart there, not of 2 MiB:
// the kernel's huge pages would be paid for in the gaps too.
func (a *Arena) reserve() error {
	if a.memory.Load() != nil {
		return nil
	}
	bytes := int64(a.layout.slots) * a.layout.packed
	m, err := a.store.sys.reserve(bytes, bytes >= hugePage, "moepool arena")
	if err != nil {
		return fmt.Errorf("arena %v: mapping %d bytes of anonymous memory for %d slots of %d bytes: %w",
			a.key, bytes, a.layout.slots, a.layout.slotBytes, err)
	}
	if a.store.smallPages {
		_ = a.store.sys.smallPages(m) // as above
	}
	a.memory.Store(&m)
	return nil
}
