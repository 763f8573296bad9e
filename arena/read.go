package arena

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// How a slot comes from the disk. Readahead is off (MADV_RANDOM) and faults of 4 KiB reach a few per cent of a disk's speed, so a slot
// is read in large pieces before anything computes on it:
//
//   - Where a fault reads a whole huge page (mapShared), populating reads 2 MiB a request, straight into a huge page, at a fifth of the
//     processor time of anything that goes through small pages (readahead, pread, io_uring: docs/residency.md).
//   - What doesn't fill a huge page, and everything on kernels that don't do that, is asked for first by POSIX_FADV_WILLNEED, which
//     doesn't wait, and populated then.
//   - Before Linux 5.14, where nothing can be populated, a read through a buffer fills the page cache, and each page is touched.
//
// One request at a time leaves a disk idle in between: while fewer than readDepth pieces of the store are being read, others help.

// readDepth pieces in flight keep a disk busy; more don't make it faster (measured on virtio; a queue of 2 MiB requests).
const readDepth = 4

// mostPieces of a slot are read one by one: as many as done has bits.
const mostPieces = 64

// reading is one slot on its way.
type reading struct {
	a      *Arena
	slot   int
	state  uint32
	data   []byte // up to the last page's end
	piece  int    // bytes
	pieces int

	next    atomic.Int32  // piece that nobody has taken
	done    atomic.Uint64 // bit i: piece i is in memory
	mu      sync.Mutex
	err     error // the first
	helpers sync.WaitGroup
}

// load brings a slot into memory and enters its pages into the page table. With check it also gives the checksum, which is computed
// while later pieces are read.
func (a *Arena) load(slot int, state uint32, data []byte, check bool) (sum uint64, err error) {
	r := reading{a: a, slot: slot, state: state, data: data}
	r.piece = int(pieceOf(a.layout.packed))
	r.pieces = (len(data) + r.piece - 1) / r.piece
	if state&inMemory == 0 {
		body := int64(0)
		if a.hugeReads {
			body = a.layout.packed &^ (hugePage - 1)
		}
		if err := a.file.prefetch(a.layout.offset(slot)+body, a.layout.packed-body); err != nil {
			return 0, a.unreadable(slot, err)
		}
		for range min(r.pieces-1, readDepth-1-int(a.store.reading.Load())) {
			r.helpers.Go(func() {
				for r.one() {
				}
			})
		}
	}
	hash := xxhash.New()
	hashed := 0
	for more := true; more; {
		if more = r.one(); !more {
			r.helpers.Wait()
		}
		for check && hashed < r.pieces && r.done.Load()&(1<<hashed) != 0 {
			part := r.part(hashed)
			if err := guarded(part, func() { _, _ = hash.Write(part) }); err != nil { // Write never fails
				r.fail(a.unreadable(slot, err))
				break
			}
			hashed++
		}
	}
	return hash.Sum64(), r.err
}

// pieceOf says in what pieces so many bytes are read.
func pieceOf(bytes int64) int64 {
	return roundUp(max(hugePage, (bytes+mostPieces-1)/mostPieces), hugePage)
}

func (r *reading) part(i int) []byte { return r.data[i*r.piece : min(len(r.data), (i+1)*r.piece)] }

// one reads the next piece; false if there is none.
func (r *reading) one() bool {
	i := int(r.next.Add(1)) - 1
	if i >= r.pieces {
		return false
	}
	store := r.a.store
	store.reading.Add(1)
	defer store.reading.Add(-1)
	if err := r.populate(r.part(i)); err != nil {
		r.fail(err)
		return false
	}
	r.done.Or(1 << i)
	return true
}

func (r *reading) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	r.next.Store(int32(r.pieces))
}

func (r *reading) populate(part []byte) error {
	err := r.a.store.sys.populate(part)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errFault):
		return r.a.unreadable(r.slot, err)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, errNoMemory):
		return r.touch(part)
	}
	return fmt.Errorf("arena %v, slot %d: populating: %w", r.a.key, r.slot, err)
}

// touch is populate for kernels without it, and where the control group is so full that whole pieces find no room: pages that are
// touched one by one take the place of others.
func (r *reading) touch(part []byte) error {
	if r.state&inMemory == 0 {
		from := int64(address(part) - address(r.data))
		if err := r.a.readThrough(r.slot, from, min(from+int64(len(part)), r.a.layout.slotBytes), func([]byte) error { return nil }); err != nil && !errors.Is(err, errNoMemory) {
			return r.a.unreadable(r.slot, err)
		}
	}
	err := guarded(part, func() {
		for i := 0; i < len(part); i += pageBytes {
			touched.Store(uint32(part[i]))
		}
	})
	if err != nil {
		return r.a.unreadable(r.slot, err)
	}
	return nil
}
