//go:build linux || darwin || freebsd

package synth

import "golang.org/x/sys/unix"

// freeBytes gives the space that this user can still write in the folder's file system; known is false where nobody can tell.
func freeBytes(dir string) (free int64, known bool) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, false
	}
	return int64(uint64(stat.Bavail) * uint64(stat.Bsize)), true
}
