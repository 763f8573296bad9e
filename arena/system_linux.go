package arena

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/numa/hostinfo"
)

type realSystem struct{}

func (realSystem) makeFolder(path string) error { return os.MkdirAll(path, 0o700) }

func (realSystem) open(path string, create bool) (file, error) {
	flags := unix.O_RDWR | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	if create {
		flags |= unix.O_CREAT | unix.O_EXCL
	}
	return openRegular(path, flags)
}

func (realSystem) openLock(path string) (file, error) {
	return openRegular(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CREAT)
}

func openRegular(path string, flags int) (file, error) {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(path, flags, 0o600)
		return err
	})
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.Join(errors.New("not a regular file"), unix.Close(fd))
	}
	return realFile(fd), nil
}

func (realSystem) remove(path string) error { return os.Remove(path) }

func (realSystem) syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems have no such call; their entries are as durable as they get.
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

func (s realSystem) reserve(bytes int64, huge bool, name string) ([]byte, error) {
	return s.anonymous(bytes, huge, false, name)
}

// anonymous maps memory, at a multiple of 2 MiB if huge; with commit the kernel may refuse what it can't promise.
func (realSystem) anonymous(bytes int64, huge, commit bool, name string) ([]byte, error) {
	if bytes < 1 || bytes > math.MaxInt-2*hugePage {
		return nil, unix.ENOMEM
	}
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if !commit {
		flags |= unix.MAP_NORESERVE
	}
	m, err := mapAligned(bytes, unix.PROT_READ|unix.PROT_WRITE, flags, -1, 0)
	if err != nil {
		return nil, err
	}
	if huge {
		_ = unix.Madvise(m, unix.MADV_HUGEPAGE) // advice: a kernel without huge pages refuses it
	}
	nameMapping(m, name)
	return m, nil
}

// mapAligned maps at a multiple of 2 MiB, so that huge pages fit.
func mapAligned(bytes int64, protection, flags, fd int, offset int64) ([]byte, error) {
	length := uintptr(roundUp(bytes, int64(pageBytes)))
	around, err := unix.MmapPtr(-1, 0, nil, length+hugePage, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	skip := -uintptr(around) & (hugePage - 1)
	at := unsafe.Add(around, skip)
	if _, err := unix.MmapPtr(fd, offset, at, length, protection, flags|unix.MAP_FIXED); err != nil {
		return nil, errors.Join(err, unix.MunmapPtr(around, length+hugePage))
	}
	if skip > 0 {
		err = unix.MunmapPtr(around, skip)
	}
	if rest := hugePage - skip; rest > 0 {
		err = errors.Join(err, unix.MunmapPtr(unsafe.Add(at, length), rest))
	}
	if err != nil {
		return nil, errors.Join(err, unix.MunmapPtr(at, length))
	}
	return unsafe.Slice((*byte)(at), bytes), nil
}

// nameMapping names anonymous memory in /proc/PID/maps, which also keeps neighbours from being merged into one line.
func nameMapping(m []byte, name string) {
	clean := []byte(name)
	for i, c := range clean {
		if c < ' ' || c > '~' || c == '[' || c == ']' || c == '\\' || c == '$' || c == '`' {
			clean[i] = '_'
		}
	}
	clean = append(clean[:min(len(clean), 79)], 0)
	_ = unix.Prctl(unix.PR_SET_VMA, unix.PR_SET_VMA_ANON_NAME, address(m), uintptr(roundUp(int64(len(m)), int64(pageBytes))),
		uintptr(unsafe.Pointer(&clean[0]))) // a kernel before 5.17 can't
}

func (realSystem) unmap(data []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(data)), uintptr(roundUp(int64(len(data)), int64(pageBytes))))
}

func (realSystem) resident(data []byte) (bool, error) {
	var pages [1024]byte
	for len(data) > 0 {
		n := min(len(data), len(pages)*pageBytes)
		count := (n + pageBytes - 1) / pageBytes
		err := retry(func() error {
			_, _, e := unix.Syscall(unix.SYS_MINCORE, address(data), uintptr(n), uintptr(unsafe.Pointer(&pages[0])))
			if e != 0 {
				return e
			}
			return nil
		})
		if err != nil {
			return false, err
		}
		for _, p := range pages[:count] {
			if p&1 == 0 {
				return false, nil
			}
		}
		data = data[n:]
	}
	return true, nil
}

func (realSystem) populate(data []byte) error {
	err := retry(func() error { return unix.Madvise(data, unix.MADV_POPULATE_READ) })
	switch err {
	case unix.EFAULT:
		return fmt.Errorf("%w while populating", errFault)
	case unix.EINVAL: // before 5.14
		return errors.ErrUnsupported
	}
	return err
}

// lock doesn't read what is absent, so that the gaps between slots stay holes.
func (realSystem) lock(data []byte) error {
	_, _, e := unix.Syscall(unix.SYS_MLOCK2, address(data), uintptr(len(data)), unix.MLOCK_ONFAULT)
	if e != 0 {
		return fmt.Errorf("mlock2: %w", e)
	}
	return nil
}

func (realSystem) unlock(data []byte) error { return unix.Munlock(data) }

func (realSystem) smallPages(data []byte) error { return unix.Madvise(data, unix.MADV_NOHUGEPAGE) }

// lockRoom raises the soft limit to the hard one first.
func (realSystem) lockRoom() (bytes int64, why string) {
	bytes, why = math.MaxInt64, "nothing limits it"
	host := hostinfo.This()
	if m, err := host.Memory(); err == nil {
		bytes = max(0, m.Available-m.Total/16)
		why = bytesize.Text(m.Available) + " of memory are available"
	}
	if room := host.Room(0); room.Bytes != hostinfo.Unlimited && room.Bytes < bytes {
		bytes, why = room.Bytes, room.Reason
	}
	if mayLockAll() {
		return bytes, why
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return 0, fmt.Sprintf("RLIMIT_MEMLOCK: %v", err)
	}
	if limit.Cur < limit.Max {
		raised := unix.Rlimit{Cur: limit.Max, Max: limit.Max}
		if unix.Setrlimit(unix.RLIMIT_MEMLOCK, &raised) == nil {
			limit = raised
		}
	}
	if limit.Cur < uint64(bytes) {
		bytes, why = int64(limit.Cur), fmt.Sprintf("RLIMIT_MEMLOCK is %d KiB; raise it with ulimit -l, LimitMEMLOCK= of systemd or --ulimit memlock= of containers", limit.Cur>>10)
	}
	return bytes, why
}

// mayLockAll says whether RLIMIT_MEMLOCK doesn't count for this process.
func mayLockAll() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0
}

func (realSystem) forget(data []byte) error { return unix.Madvise(data, unix.MADV_DONTNEED) }

// realFile is a descriptor; the calls are made directly because they are on the hot path or have no method in package os.
type realFile int

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// maxTransfer is what one read or write is given: whole huge pages, below the kernel's limit of 2 GiB.
const maxTransfer = 1 << 30

func (f realFile) readAt(p []byte, offset int64) error {
	return transfer(p, func(part []byte, done int) (int, error) { return unix.Pread(int(f), part, offset+int64(done)) },
		io.ErrUnexpectedEOF)
}

func (f realFile) writeAt(p []byte, offset int64) error {
	return transfer(p, func(part []byte, done int) (int, error) { return unix.Pwrite(int(f), part, offset+int64(done)) },
		io.ErrShortWrite)
}

func transfer(p []byte, call func(part []byte, done int) (int, error), short error) error {
	for done := 0; done < len(p); {
		n, err := call(p[done:min(len(p), done+maxTransfer)], done)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0:
			return short
		default:
			done += n
		}
	}
	return nil
}

func (f realFile) allocate(offset, bytes int64) error {
	return retry(func() error { return unix.Fallocate(int(f), unix.FALLOC_FL_KEEP_SIZE, offset, bytes) })
}

func (f realFile) punch(offset, bytes int64) error {
	return retry(func() error {
		return unix.Fallocate(int(f), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, bytes)
	})
}

func (f realFile) truncate(size int64) error {
	return retry(func() error { return unix.Ftruncate(int(f), size) })
}

func (f realFile) size() (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f), &st); err != nil {
		return 0, err
	}
	return st.Size, nil
}

func (f realFile) sync() error { return retry(func() error { return unix.Fdatasync(int(f)) }) }

// prefetchPiece is what one call is given: the kernel reads no more for a call than the file's readahead or the device's largest
// transfer, whichever is larger, and leaves the rest out silently. Readahead is 128 KiB where nobody changed it. The requests are
// adjacent, so that the kernel may join them; 256 KiB took 6 % less time where that is allowed, 1 MiB 2 % more.
const prefetchPiece = 128 << 10

func (f realFile) prefetch(offset, bytes int64) error {
	for end := offset + bytes; offset < end; offset += prefetchPiece {
		if err := unix.Fadvise(int(f), offset, min(prefetchPiece, end-offset), unix.FADV_WILLNEED); err != nil {
			return err
		}
	}
	return nil
}

func (f realFile) drop(offset, bytes int64) error {
	return unix.Fadvise(int(f), offset, bytes, unix.FADV_DONTNEED)
}

// mapShared maps a part of the file read-only: it is written through the descriptor only.
func (f realFile) mapShared(offset, bytes int64) ([]byte, bool, error) {
	m, err := mapAligned(bytes, unix.PROT_READ, unix.MAP_SHARED, int(f), offset)
	if err != nil {
		return nil, false, err
	}
	if err := unix.Madvise(m, unix.MADV_RANDOM); err != nil {
		return nil, false, errors.Join(err, realSystem{}.unmap(m))
	}
	return m, hugeFaults() && unix.Madvise(m, unix.MADV_HUGEPAGE) == nil, nil
}

// hugeFaults says whether a fault in a file mapping with MADV_HUGEPAGE reads a whole huge page, even with MADV_RANDOM: Linux
// 5.18 and later do. With huge pages larger than 2 MiB (64 KiB pages) it would read far more than a slot.
var hugeFaults = sync.OnceValue(func() bool {
	size, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	if err != nil || strings.TrimSpace(string(size)) != strconv.Itoa(hugePage) {
		return false
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false
	}
	var major, minor int
	_, err = fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major > 5 || major == 5 && minor >= 18)
})

func (f realFile) lock() (bool, error) {
	err := retry(func() error { return unix.Flock(int(f), unix.LOCK_EX|unix.LOCK_NB) })
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

func (f realFile) unlock() error {
	return retry(func() error { return unix.Flock(int(f), unix.LOCK_UN) })
}

func (f realFile) close() error { return unix.Close(int(f)) }
