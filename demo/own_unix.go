//go:build unix

package demo

import (
	"fmt"
	"os"
	"syscall"
)

// ownFolder makes a folder that only this user can write, or makes sure that the one there is such: the temporary folder is open
// to everyone, and another user could wait there with files of theirs.
func ownFolder(path string) (string, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known || !info.IsDir() || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s is not a folder that only this user can write: found %s", path, info.Mode())
	}
	return path, nil
}
