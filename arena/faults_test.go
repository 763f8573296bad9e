package arena

import "sync"

// faults is a system whose calls of one kind fail from the first-th to the last-th (from 1).
type faults struct {
	system
	kind        string
	first, last int
	err         error

	mu   sync.Mutex
	seen map[string]int // calls by kind
}

func (f *faults) fail(kind string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		f.seen = map[string]int{}
	}
	f.seen[kind]++
	if n := f.seen[kind]; kind == f.kind && n >= f.first && n <= f.last {
		return f.err
	}
	return nil
}

// reached says whether a call failed.
func (f *faults) reached() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[f.kind] >= f.first
}

func (f *faults) makeFolder(path string) error {
	if err := f.fail("makeFolder"); err != nil {
		return err
	}
	return f.system.makeFolder(path)
}

func (f *faults) open(path string, create bool) (file, error) {
	kind := "open"
	if create {
		kind = "create"
	}
	if err := f.fail(kind); err != nil {
		return nil, err
	}
	return f.wrap(f.system.open(path, create))
}

func (f *faults) openLock(path string) (file, error) {
	if err := f.fail("openLock"); err != nil {
		return nil, err
	}
	return f.wrap(f.system.openLock(path))
}

func (f *faults) wrap(inner file, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return &faultyFile{inner, f}, nil
}

func (f *faults) remove(path string) error {
	if err := f.fail("remove"); err != nil {
		return err
	}
	return f.system.remove(path)
}

func (f *faults) syncFolder(path string) error {
	if err := f.fail("syncFolder"); err != nil {
		return err
	}
	return f.system.syncFolder(path)
}

func (f *faults) reserve(bytes int64, huge bool, name string) ([]byte, error) {
	if err := f.fail("reserve"); err != nil {
		return nil, err
	}
	return f.system.reserve(bytes, huge, name)
}

func (f *faults) populate(data []byte) error {
	if err := f.fail("populate"); err != nil {
		return err
	}
	return f.system.populate(data)
}

type faultyFile struct {
	file
	f *faults
}

func (f *faultyFile) readAt(p []byte, offset int64) error {
	if err := f.f.fail("readAt"); err != nil {
		return err
	}
	return f.file.readAt(p, offset)
}

// writeAt fails in the middle.
func (f *faultyFile) writeAt(p []byte, offset int64) error {
	if err := f.f.fail("writeAt"); err != nil {
		_ = f.file.writeAt(p[:len(p)/2], offset)
		return err
	}
	return f.file.writeAt(p, offset)
}

func (f *faultyFile) allocate(offset, bytes int64) error {
	if err := f.f.fail("allocate"); err != nil {
		return err
	}
	return f.file.allocate(offset, bytes)
}

func (f *faultyFile) punch(offset, bytes int64) error {
	if err := f.f.fail("punch"); err != nil {
		return err
	}
	return f.file.punch(offset, bytes)
}

func (f *faultyFile) truncate(size int64) error {
	if err := f.f.fail("truncate"); err != nil {
		return err
	}
	return f.file.truncate(size)
}

func (f *faultyFile) size() (int64, error) {
	if err := f.f.fail("size"); err != nil {
		return 0, err
	}
	return f.file.size()
}

func (f *faultyFile) sync() error {
	if err := f.f.fail("sync"); err != nil {
		return err
	}
	return f.file.sync()
}

func (f *faultyFile) mapShared(offset, bytes int64) ([]byte, bool, error) {
	if err := f.f.fail("mapShared"); err != nil {
		return nil, false, err
	}
	return f.file.mapShared(offset, bytes)
}

func (f *faultyFile) lock() (bool, error) {
	if err := f.f.fail("lock"); err != nil {
		return false, err
	}
	return f.file.lock()
}
