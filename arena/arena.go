// Package arena owns file-backed memory: one mapped file per (layer, part) with one slot per expert, its residency, and the
// anonymous memory that replaces it when there is no file. It must not know what the bytes mean.
package arena

// Options describe a store: all arena files of one worker for one packed model.
type Options struct {
	Dir      string // the worker's own folder; "" or "none": anonymous memory
	Identity string // model digest, format, parts, layout version: a file written under another identity is rebuilt
	Log      func(format string, args ...any)
}

// Store is an open, locked folder.
type Store struct{}

// ErrLocked is the error of OpenStore when another process holds the folder.
var ErrLocked error

// OpenStore creates and locks the folder. A folder that can't be used gives a store of anonymous memory and a log line, except
// for ErrLocked.
func OpenStore(o Options) (*Store, error) { panic("skeleton") }

// Close unmaps all files and releases the lock.
func (s *Store) Close() error { panic("skeleton") }

// Key names one arena file.
type Key struct{ Layer, Part int }

// Geometry is the shape of one arena file.
type Geometry struct {
	Slots     int // one for every expert of the layer
	SlotBytes int // packed bytes of one slot; the stride is rounded up to 2 MiB
}

// Open maps the file of a key, creating or rebuilding it as needed. It never fails for lack of a file: the arena is then
// anonymous and counted as a fallback. Errors are bad geometry or lack of address space only.
func (s *Store) Open(k Key, g Geometry) (*Arena, error) { panic("skeleton") }

// Counters are totals since OpenStore.
type Counters struct {
	Files         int   `json:"files"`
	Bytes         int64 `json:"bytes"`        // packed bytes of owned slots
	PackedBytes   int64 `json:"packed_bytes"` // written in this process
	ReusedBytes   int64 `json:"reused_bytes"` // found valid at start
	Fallbacks     int   `json:"fallbacks"`    // arenas that are anonymous though a folder was asked for
	VerifiedSlots int64 `json:"verified_slots"`
	TornSlots     int64 `json:"torn_slots"` // checksum mismatches found, rebuilt
}

// Counters gives the totals.
func (s *Store) Counters() Counters { panic("skeleton") }

// Arena is one mapped file, or anonymous memory in its place.
type Arena struct{}

// Anonymous says whether there is no file behind it.
func (a *Arena) Anonymous() bool { panic("skeleton") }

// Valid says whether the slot is marked: its bytes were completely written under this identity.
func (a *Arena) Valid(slot int) bool { panic("skeleton") }

// Fill writes the listed slots: space is allocated, fill(slot, dst) stores the SlotBytes, data is synced, slots are marked with
// their checksum, marks are synced. It is called by a thread that carries the wanted memory policy. An error of fill leaves
// the slots unmarked and is returned. A full disk turns the arena anonymous (fallback), and goes on.
func (a *Arena) Fill(slots []int, fill func(slot int, dst []byte) error) error { panic("skeleton") }

// Bytes gives a slot's packed bytes inside the mapping; the slot is valid. The address never changes while the arena lives,
// except when Fill turns it anonymous.
func (a *Arena) Bytes(slot int) []byte { panic("skeleton") }

// ErrTorn is the error of Bring for a slot whose bytes don't have its checksum; the slot is unmarked then.
var ErrTorn error

// ErrTruncated is the error when the file became shorter underneath.
var ErrTruncated error

// Bring makes a slot resident as a whole and verifies its checksum the first time after a start. hit says whether it was
// resident already. Errors: ErrTorn, ErrTruncated (errors.Is); the caller rebuilds with Fill.
func (a *Arena) Bring(slot int) (hit bool, err error) { panic("skeleton") }

// Resident says whether all pages of a slot are in memory (mincore).
func (a *Arena) Resident(slot int) bool { panic("skeleton") }

// Punch gives a slot's space back and unmarks it.
func (a *Arena) Punch(slot int) error { panic("skeleton") }

// Evict drops a slot's pages from memory (MADV_PAGEOUT/DONTNEED and fadvise); anonymous slots stay.
func (a *Arena) Evict(slot int) error { panic("skeleton") }

// Anonymous memory outside the Go heap, zeroed, 2 MiB aligned where large; free releases it. purpose is for error messages.
func Anonymous(bytes int, purpose string) (data []byte, free func(), err error) { panic("skeleton") }
