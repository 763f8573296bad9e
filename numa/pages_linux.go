package numa

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batchPages is the number of pages of one move_pages call: some 100 µs when nothing moves.
const batchPages = 4096

const (
	moveOwn = 2 // MPOL_MF_MOVE: pages that only this process maps
	moveAll = 4 // MPOL_MF_MOVE_ALL: others as well; needs CAP_SYS_NICE
)

// Locate counts the pages that data touches by node (move_pages with no target). Pages that are not in this process's page
// table count as absent, in the page cache or not. Where the call is not permitted, pages of a one-node host are local if they are in
// memory; with more nodes they are unknown, and the error is ErrDenied.
func Locate(data []byte, node int) (Pages, error) {
	var pages Pages
	b := newBatch()
	err := b.each(data, func(start uintptr, count int) error {
		if err := b.query(start, count); err != nil {
			return err
		}
		pages.Add(b.count(node))
		return nil
	})
	if err == nil {
		return pages, nil
	}
	present, absent, residentErr := resident(data)
	if residentErr != nil {
		return Pages{}, residentErr
	}
	if oneNode() {
		return Pages{Local: present, Absent: absent}, nil
	}
	return Pages{Unknown: present, Absent: absent}, fmt.Errorf("asking where pages are: move_pages: %v: %w", err, ErrDenied)
}

// Migrate brings data into memory and into this process's page table, moves what lies elsewhere to the node, and counts again. Pages
// that can't be moved are no error but counted as remote: the node is full, or another process maps them and CAP_SYS_NICE is
// missing. Errors: data can't be read (a file was truncated), or ErrDenied.
func Migrate(data []byte, node int) (Pages, error) {
	if err := populate(data); err != nil {
		return Pages{}, err
	}
	b := newBatch()
	var moveErr error
	// A page that the kernel is busy with is worth another try, as is one that is mapped elsewhere with more rights.
	for _, flags := range []uintptr{moveOwn, moveOwn, moveAll} {
		elsewhere := 0
		if err := b.each(data, func(start uintptr, count int) error {
			if err := b.query(start, count); err != nil {
				return err
			}
			n := b.selectRemote(node)
			elsewhere += n
			if n == 0 {
				return nil
			}
			return b.move(n, node, flags)
		}); err != nil {
			moveErr = err
			break
		}
		if elsewhere == 0 {
			break
		}
	}
	pages, err := Locate(data, node)
	if err == nil && pages.Remote > 0 && moveErr != nil && moveErr != unix.EPERM {
		return pages, fmt.Errorf("moving pages to node %d: move_pages: %w", node, moveErr)
	}
	return pages, err
}

// batch holds the arguments of one move_pages call.
type batch struct {
	addresses []uintptr
	nodes     []int32
	status    []int32
	used      int
}

func newBatch() *batch {
	return &batch{addresses: make([]uintptr, batchPages), nodes: make([]int32, batchPages), status: make([]int32, batchPages)}
}

// each calls do for runs of at most batchPages pages.
func (b *batch) each(data []byte, do func(start uintptr, count int) error) error {
	if len(data) == 0 {
		return nil
	}
	start, pages := pageRange(data)
	for first := 0; first < pages; first += batchPages {
		if err := do(start+uintptr(first*pageSize), min(batchPages, pages-first)); err != nil {
			return err
		}
	}
	return nil
}

// query asks for the nodes of count pages.
func (b *batch) query(start uintptr, count int) error {
	for i := range count {
		b.addresses[i] = start + uintptr(i*pageSize)
	}
	b.used = count
	return b.call(count, nil, 0)
}

// call is move_pages of this process.
func (b *batch) call(count int, nodes *int32, flags uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(count), uintptr(unsafe.Pointer(&b.addresses[0])),
		uintptr(unsafe.Pointer(nodes)), uintptr(unsafe.Pointer(&b.status[0])), flags)
	if errno != 0 {
		return errno
	}
	return nil // a positive result is the number of pages that stayed; they are counted afterwards
}

// count sorts the answers of query.
func (b *batch) count(node int) (pages Pages) {
	for _, status := range b.status[:b.used] {
		switch {
		case status == int32(node):
			pages.Local++
		case status >= 0:
			pages.Remote++
		case status == -int32(unix.ENOENT), status == -int32(unix.EFAULT): // the latter: the page of zeros
			pages.Absent++
		default:
			pages.Unknown++
		}
	}
	return pages
}

// selectRemote keeps the addresses that the answers of query place on other nodes, and gives their number.
func (b *batch) selectRemote(node int) int {
	n := 0
	for i, status := range b.status[:b.used] {
		if status >= 0 && status != int32(node) {
			b.addresses[n] = b.addresses[i]
			n++
		}
	}
	return n
}

// move moves the first count addresses.
func (b *batch) move(count, node int, flags uintptr) error {
	for i := range count {
		b.nodes[i] = int32(node)
	}
	return b.call(count, &b.nodes[0], flags)
}

// populate maps all pages of data, as reading each would.
func populate(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	start, pages := pageRange(data)
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, start, uintptr(pages*pageSize), unix.MADV_POPULATE_READ)
	switch errno {
	case 0:
		return nil
	case unix.EINVAL, unix.ENOSYS, unix.EPERM: // Linux before 5.14, or a filter
		return touch(data)
	}
	return fmt.Errorf("bringing %d bytes into memory: %w", len(data), errno)
}

// touch reads a byte of each page.
func touch(data []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("bringing %d bytes into memory: %v", len(data), fault)
		}
	}()
	var sum byte
	for i := 0; i < len(data); i += pageSize {
		sum += data[i]
	}
	sum += data[len(data)-1]
	touched(sum)
	return nil
}

// touched keeps the compiler from leaving the reads out.
//
//go:noinline
func touched(byte) {}

// resident counts pages by mincore.
func resident(data []byte) (present, absent int64, err error) {
	if len(data) == 0 {
		return 0, 0, nil
	}
	start, pages := pageRange(data)
	state := make([]byte, min(pages, batchPages))
	for first := 0; first < pages; first += batchPages {
		count := min(batchPages, pages-first)
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, start+uintptr(first*pageSize), uintptr(count*pageSize),
			uintptr(unsafe.Pointer(&state[0])))
		if errno != 0 {
			return 0, 0, fmt.Errorf("mincore of %d pages: %w", count, errno)
		}
		for _, s := range state[:count] {
			if s&1 != 0 {
				present++
			} else {
				absent++
			}
		}
	}
	return present, absent, nil
}

// oneNode says whether this host has one node with memory, as far as is known.
var oneNode = sync.OnceValue(func() bool {
	for _, file := range []string{"has_memory", "online"} {
		text, err := os.ReadFile("/sys/devices/system/node/" + file)
		if err != nil {
			continue
		}
		list, err := ParseList(string(text))
		return err == nil && len(list) <= 1
	}
	return true
})
