package arena

// system is the outside world, so that tests can make each call fail or record what would survive a crash.
type system interface {
	makeFolder(path string) error
	// open opens a regular file for reading and writing, never following a link; create makes a new one.
	open(path string, create bool) (file, error)
	// openLock opens or creates a lock file.
	openLock(path string) (file, error)
	remove(path string) error
	syncFolder(path string) error
	// reserve maps zeroed anonymous memory that takes room only where it is touched.
	reserve(bytes int64, huge bool, name string) ([]byte, error)
	unmap(data []byte) error
	// resident says whether all pages of data are in memory.
	resident(data []byte) (bool, error)
	// populate enters all pages of data into the page table, reading what is absent. errFault: a page has no file behind it or
	// can't be read. errors.ErrUnsupported: this kernel can't.
	populate(data []byte) error
	// lock keeps the pages of data that are in memory there, and those that come later; absent ones are not read.
	lock(data []byte) error
	unlock(data []byte) error
	// lockRoom says how much this process may lock, and what limits it.
	lockRoom() (bytes int64, why string)
	// smallPages keeps the kernel from mapping data by huge pages.
	smallPages(data []byte) error
	// forget takes data out of the page table: file pages stay in the page cache, anonymous pages are given back.
	forget(data []byte) error
}

type file interface {
	readAt(p []byte, offset int64) error // io.ErrUnexpectedEOF beyond the end
	writeAt(p []byte, offset int64) error
	allocate(offset, bytes int64) error // errors.ErrUnsupported where the file system can't
	punch(offset, bytes int64) error    // errors.ErrUnsupported where the file system can't
	truncate(size int64) error
	size() (int64, error)
	sync() error                        // data and what is needed to read it back
	prefetch(offset, bytes int64) error // starts reading into the page cache
	drop(offset, bytes int64) error     // takes clean pages out of the page cache
	// mapShared maps a part of the file for reading. hugeReads: a fault reads a whole huge page.
	mapShared(offset, bytes int64) (data []byte, hugeReads bool, err error)
	lock() (bool, error) // false: another holds it
	unlock() error
	close() error
}
