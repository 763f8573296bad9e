package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// dropPages drops a file's pages from the page cache: those that are on the disk and that no process has mapped.
func dropPages(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("dropping %s from the page cache: %w", path, err)
	}
	return nil
}
