package arena

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Options describe a store: all arena files of one worker for one packed model.
type Options struct {
	Dir      string // the worker's own folder; "" or "none": anonymous memory
	Identity string // model digest, format, parts, layout version: a file written under another identity is rebuilt
	// AnonymousIfLocked gives anonymous memory, like any other folder that can't be used, where ErrLocked would be returned.
	AnonymousIfLocked bool
	// MLock locks each slot in memory when it is brought, and unlocks it when it is evicted or punched. What RLIMIT_MEMLOCK or the
	// control group's memory doesn't allow stays unlocked: that is said once, and Counters have both.
	MLock bool
	// LockLimit, if above 0, bounds what MLock takes: the share of a worker that isn't alone on the host. In bytes.
	LockLimit int64
	// HugePages says what pages slots are mapped by.
	HugePages PageSize
	Log       func(format string, args ...any)

	system system // nil: the real one
}

// Store is an open, locked folder.
type Store struct {
	dir      string // "": anonymous
	asked    bool   // a folder was asked for
	identity identity
	sys      system
	log      func(format string, args ...any)
	lock     file

	said sync.Map // kinds of log lines that were said

	smallPages bool
	reading    atomic.Int32 // pieces of slots that are being read
	locks      locks

	mu     sync.Mutex
	closed bool
	arenas map[Key]*Arena

	count struct {
		bytes, packed, reused, fallbacks, verified, torn, rebuilt atomic.Int64
	}
}

// ErrLocked is the error of OpenStore when another process holds the folder (errors.Is); a *LockedError has the details.
var ErrLocked = errors.New("arena folder is in use")

// LockedError says who holds a folder.
type LockedError struct {
	Dir string
	PID int // 0 if the holder didn't write it
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("arena folder %s is in use by %s: stop it or choose another folder", e.Dir, who)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// lockName is the lock file's name in a store's folder; it holds the owner's process id.
const lockName = "lock"

// fileName is the name of a key's file. Only files of this pattern are ever replaced or removed.
func fileName(k Key) string { return fmt.Sprintf("layer-%05d-part-%03d.arena", k.Layer, k.Part) }

// OpenStore creates and locks the folder. A folder that can't be used gives a store of anonymous memory and a log line, except
// for ErrLocked without AnonymousIfLocked.
func OpenStore(o Options) (*Store, error) {
	s := &Store{identity: identityOf(o.Identity), sys: o.system, log: o.Log, arenas: map[Key]*Arena{}}
	if s.sys == nil {
		s.sys = realSystem{}
	}
	if s.log == nil {
		s.log = func(string, ...any) {}
	}
	s.smallPages = o.HugePages == HugePagesNever
	if o.MLock {
		s.setUpLocks(o.LockLimit)
	}
	if o.Dir == "" || o.Dir == "none" {
		return s, nil
	}
	s.asked = true
	err := s.lockFolder(o.Dir)
	if errors.Is(err, ErrLocked) && !o.AnonymousIfLocked {
		return nil, err
	}
	if err != nil {
		s.log("arena folder %s can't be used, experts are kept in anonymous memory: %v", o.Dir, err)
		return s, nil
	}
	return s, nil
}

func (s *Store) lockFolder(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := s.sys.makeFolder(dir); err != nil {
		return fmt.Errorf("creating it: %w", err)
	}
	l, err := s.sys.openLock(filepath.Join(dir, lockName))
	if err != nil {
		return fmt.Errorf("opening its lock file: %w", err)
	}
	held, err := l.lock()
	if err != nil {
		return errors.Join(fmt.Errorf("locking it: %w", err), l.close())
	}
	if !held {
		return errors.Join(&LockedError{Dir: dir, PID: readPID(l)}, l.close())
	}
	if err := writePID(l); err != nil {
		return errors.Join(fmt.Errorf("writing its lock file: %w", err), l.close())
	}
	s.dir, s.lock = dir, l
	return nil
}

func writePID(l file) error {
	if err := l.truncate(0); err != nil {
		return err
	}
	return l.writeAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
}

func readPID(l file) int {
	n, err := l.size()
	if err != nil || n < 1 || n > 20 {
		return 0
	}
	b := make([]byte, n)
	if l.readAt(b, 0) != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

// Dir is the store's folder, absolute; "" when its memory is anonymous.
func (s *Store) Dir() string { return s.dir }

// Close waits for the calls that are inside its arenas, unmaps all files and releases the lock. Bytes that were handed out
// must not be used any more.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, a := range s.arenas {
		errs = append(errs, a.close())
	}
	if s.lock != nil {
		// Closing alone releases it later, if this process is starting another one: until its exec a child has all descriptors.
		errs = append(errs, s.lock.unlock(), s.lock.close())
	}
	return errors.Join(errs...)
}

// Open maps the file of a key, creating or rebuilding it as needed; a key that is open already gives the same arena. It never
// fails for lack of a file: the arena is then anonymous and counted as a fallback. Errors are bad geometry, lack of address
// space and a closed store.
func (s *Store) Open(k Key, g Geometry) (*Arena, error) {
	if k.Layer < 0 || k.Part < 0 || k.Layer >= 1<<31-1 || k.Part >= 1<<31-1 {
		return nil, fmt.Errorf("arena: no such file: %v", k)
	}
	l, err := newLayout(g)
	if err != nil {
		return nil, fmt.Errorf("arena %v: %w", k, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("arena %v: %w", k, ErrClosed)
	}
	if a := s.arenas[k]; a != nil {
		if a.layout != l {
			return nil, fmt.Errorf("arena %v: open with %d slots of %d bytes, wanted %d of %d",
				k, a.layout.slots, a.layout.slotBytes, l.slots, l.slotBytes)
		}
		return a, nil
	}
	a := &Arena{store: s, key: k, layout: l, slots: make([]slot, l.slots), gate: newGate()}
	if s.dir != "" {
		a.path = filepath.Join(s.dir, fileName(k))
		if err := a.openFile(); err != nil {
			a.fallBack(err)
		}
	} else if s.asked {
		a.fellBack.Store(true)
		s.count.fallbacks.Add(1)
	}
	if a.file == nil {
		a.path = ""
		if err := a.reserve(); err != nil {
			return nil, err
		}
	}
	s.arenas[k] = a
	return a, nil
}

// sayOnce logs a line of its kind once in the store's life.
func (s *Store) sayOnce(kind, format string, args ...any) {
	if _, said := s.said.LoadOrStore(kind, true); !said {
		s.log(format, args...)
	}
}

// Counters are totals since OpenStore.
type Counters struct {
	Files         int   `json:"files"`
	Bytes         int64 `json:"bytes"`        // packed bytes of valid slots
	PackedBytes   int64 `json:"packed_bytes"` // written in this process
	ReusedBytes   int64 `json:"reused_bytes"` // found valid at start and still valid
	Fallbacks     int   `json:"fallbacks"`    // arenas that are anonymous, wholly or in part, though a folder was asked for
	VerifiedSlots int64 `json:"verified_slots"`
	TornSlots     int64 `json:"torn_slots"`    // checksum mismatches found, rebuilt
	RebuiltFiles  int64 `json:"rebuilt_files"` // found but not usable: another model or geometry, damaged, foreign

	LockedBytes      int64 `json:"locked_bytes"`       // packed bytes of slots that are locked in memory
	LockRefusedBytes int64 `json:"lock_refused_bytes"` // of slots that were brought and should be locked, but could not
}

// Counters gives the totals.
func (s *Store) Counters() Counters {
	c := Counters{
		Bytes:         s.count.bytes.Load(),
		PackedBytes:   s.count.packed.Load(),
		ReusedBytes:   s.count.reused.Load(),
		Fallbacks:     int(s.count.fallbacks.Load()),
		VerifiedSlots: s.count.verified.Load(),
		TornSlots:     s.count.torn.Load(),
		RebuiltFiles:  s.count.rebuilt.Load(),
	}
	s.locks.mu.Lock()
	c.LockedBytes, c.LockRefusedBytes = s.locks.locked, s.locks.refused
	s.locks.mu.Unlock()
	for _, a := range s.all() {
		if a.file != nil {
			c.Files++
		}
	}
	return c
}

// all gives the open arenas.
func (s *Store) all() []*Arena {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*Arena, 0, len(s.arenas))
	for _, a := range s.arenas {
		list = append(list, a)
	}
	return list
}
