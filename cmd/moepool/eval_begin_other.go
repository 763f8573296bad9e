//go:build !linux

package main

import "fmt"

// dropPages is not known here.
func dropPages(path string) error {
	return fmt.Errorf("dropping %s from the page cache: only Linux can", path)
}
