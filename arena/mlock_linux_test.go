package arena

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/internal/ondisk"
)

// limitedLock is a system where only so many bytes may be locked, or where the kernel refuses the n-th call and later ones.
type limitedLock struct {
	system
	room    int64
	refuses int // calls that succeed before; negative: all
	calls   int
}

func (l *limitedLock) lockRoom() (int64, string) { return l.room, "a test's limit" }

func (l *limitedLock) lock(data []byte) error {
	if l.calls++; l.refuses >= 0 && l.calls > l.refuses {
		return unix.EAGAIN
	}
	return l.system.lock(data)
}

// kernelLocked is what the kernel says is locked of this store's mappings.
func kernelLocked(t *testing.T, s *Store) (bytes int64) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ours := false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		if from, to, ok := parseRange(name); ok {
			ours = false
			for _, a := range s.all() {
				for _, m := range a.Mappings() {
					ours = ours || from < uint64(address(m))+uint64(len(m)) && uint64(address(m)) < to
				}
			}
		}
		if ours && name == "Locked:" {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			bytes += n << 10
		}
	}
	return bytes
}

func wantLocked(t *testing.T, s *Store, locked, refused int64) {
	t.Helper()
	c := s.Counters()
	if c.LockedBytes != locked || c.LockRefusedBytes != refused {
		t.Errorf("locked %d, refused %d; want %d, %d", c.LockedBytes, c.LockRefusedBytes, locked, refused)
	}
	if n := kernelLocked(t, s); n != locked {
		t.Errorf("the kernel says that %d bytes are locked, want %d", n, locked)
	}
}

// Slots are locked when they are brought, as far as there is room, and unlocked when they are evicted, punched or filled again.
func TestMLock(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"file", "anonymous"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := "none"
			if kind == "file" {
				dir = ondisk.Folder(t)
			}
			l, err := newLayout(small)
			if err != nil {
				t.Fatal(err)
			}
			unit := l.stride
			if kind == "anonymous" {
				unit = l.packed
			}
			var log lines
			s := openStore(t, Options{Dir: dir, MLock: true, Log: log.log, system: &limitedLock{system: realSystem{}, room: 2*unit + 1, refuses: -1}})
			a := openArena(t, s, small)
			fill(t, a, 1, 0, 1, 2, 3)
			wantLocked(t, s, 0, 0)
			bring(t, a, 1, 0, 1, 0)
			wantLocked(t, s, 2*l.packed, 0)
			bring(t, a, 1, 2, 2)
			wantLocked(t, s, 2*l.packed, l.packed)
			if kind == "file" {
				evict(t, a, 1) // although it was locked
				wantLocked(t, s, l.packed, l.packed)
				bring(t, a, 1, 2)
				wantLocked(t, s, 2*l.packed, 0)
			} else if err := a.Evict(1); err != nil || !a.Resident(1) { // anonymous slots stay
				t.Error(err)
			}
			if err := a.Punch(0, 1, 2); err != nil {
				t.Fatal(err)
			}
			wantLocked(t, s, 0, 0)
			bring(t, a, 1, 3)
			wantLocked(t, s, l.packed, 0)
			fill(t, a, 2, 3)
			wantLocked(t, s, 0, 0)
			bring(t, a, 2, 3)
			wantLocked(t, s, l.packed, 0)
			if n := log.count("may be (a test's limit)"); n != 1 {
				t.Errorf("to be said once:\n%s", &log)
			}
			if kind == "file" {
				edit(t, a.path, func(f *os.File) error { return f.Truncate(l.first) })
				if _, err := a.Bring(3); !errors.Is(err, ErrTruncated) {
					t.Error(err)
				}
				wantLocked(t, s, 0, 0)
			}
		})
	}
}

// What the kernel refuses is counted and said, and the slot is there all the same.
func TestMLockRefused(t *testing.T) {
	t.Parallel()
	var log lines
	s := openStore(t, Options{Dir: ondisk.Folder(t), MLock: true, LockLimit: 1 << 40, Log: log.log,
		system: &limitedLock{system: realSystem{}, room: 1 << 50, refuses: 1}})
	a := openArena(t, s, small)
	fill(t, a, 1, 0, 1, 2)
	bring(t, a, 1, 0, 1, 2, 1)
	wantLocked(t, s, a.layout.packed, 2*a.layout.packed)
	if log.count(unix.EAGAIN.Error()) != 1 {
		t.Errorf("to be said once:\n%s", &log)
	}
}

// LockLimit is a limit of its own.
func TestLockLimit(t *testing.T) {
	t.Parallel()
	var log lines
	s := openStore(t, Options{Dir: "none", MLock: true, LockLimit: 1, Log: log.log, system: &limitedLock{system: realSystem{}, room: 1 << 50, refuses: -1}})
	a := openArena(t, s, small)
	fill(t, a, 1, 0)
	bring(t, a, 1, 0)
	wantLocked(t, s, 0, a.layout.packed)
	if log.count("at most 1 B were asked for") != 1 {
		t.Errorf("to be said once:\n%s", &log)
	}
}

// lockAs is the other process of TestMemlockLimit: RLIMIT_MEMLOCK holds for it.
func lockAs(dir string) error {
	runtime.LockOSThread() // capabilities are a thread's
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective &^= 1 << unix.CAP_IPC_LOCK
	data[0].Permitted &^= 1 << unix.CAP_IPC_LOCK
	if err := unix.Capset(&header, &data[0]); err != nil {
		return err
	}
	l, err := newLayout(small)
	if err != nil {
		return err
	}
	limit := uint64(2*l.stride + l.stride/2)
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 1, Max: limit}); err != nil {
		return err
	}
	s, err := OpenStore(Options{Dir: dir, Identity: testIdentity, MLock: true, Log: func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) }})
	if err != nil {
		return err
	}
	defer s.Close()
	a, err := s.Open(testKey, small)
	if err != nil {
		return err
	}
	for _, slot := range []int{3, 1, 0} {
		if _, err := a.Bring(slot); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(s.Counters())
}

// With RLIMIT_MEMLOCK of two and a half slots two are locked, and the limit is named.
func TestMemlockLimit(t *testing.T) {
	dir, _ := packed(t, small, 0, 1, 3)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "ARENA_TEST_ROLE=mlock", "ARENA_TEST_DIR="+dir)
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatal(err, said.String())
	}
	var got Counters
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	l, err := newLayout(small)
	if err != nil {
		t.Fatal(err)
	}
	if got.LockedBytes != 2*l.packed || got.LockRefusedBytes != l.packed || strings.Count(said.String(), "RLIMIT_MEMLOCK is") != 1 {
		t.Errorf("%+v\n%s", got, said.String())
	}
}

// Without huge pages the same slots are mapped by small ones.
func TestHugePagesNever(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{ondisk.Folder(t), "none"} {
		for _, size := range []PageSize{HugePagesAuto, HugePagesNever} {
			s := openStore(t, Options{Dir: dir, HugePages: size})
			a := openArena(t, s, vmGeometry)
			if !a.Valid(0) {
				fill(t, a, 1, 0, 1, 2)
			}
			for slot := range vmSlots {
				if err := a.Evict(slot); err != nil {
					t.Fatal(err)
				}
			}
			bring(t, a, 1, 0, 1, 2)
			h, err := s.HugePages()
			if err != nil {
				t.Fatal(err)
			}
			if share := h.Share(); size == HugePagesNever && share != 0 {
				t.Errorf("%s, %s: %.0f %% are huge pages", dir, size, 100*share)
			} else {
				t.Logf("%s, %s: %.0f %% are huge pages", dir, size, 100*share) // auto promises none
			}
			closeStore(t, s)
		}
	}
	for _, c := range []struct {
		text string
		want PageSize
		ok   bool
	}{{"auto", HugePagesAuto, true}, {"never", HugePagesNever, true}, {"always", "", false}, {"", "", false}} {
		if got, err := ParsePageSize(c.text); got != c.want || (err == nil) != c.ok {
			t.Errorf("%q: %q, %v", c.text, got, err)
		}
	}
}
