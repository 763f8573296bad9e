package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropFromCache advises the kernel to drop clean pages of the file that nobody else maps.
func dropFromCache(f *os.File, begin, end int64) {
	_ = unix.Fadvise(int(f.Fd()), begin, end-begin, unix.FADV_DONTNEED)
}
