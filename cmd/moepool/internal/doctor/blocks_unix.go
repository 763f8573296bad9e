//go:build unix

package doctor

import (
	"io/fs"
	"syscall"
)

// blocks is the disk space of a file in bytes.
func blocks(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(st.Blocks) * 512
	}
	return info.Size()
}
