//go:build linux || darwin || freebsd

package shard

import "golang.org/x/sys/unix"

// freeBytes is the room on a folder's disk for this user, or -1 if it can't be found out.
func freeBytes(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return -1
	}
	return int64(st.Bavail) * int64(st.Bsize)
}
