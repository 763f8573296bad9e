//go:build unix && !linux

package checkpoint

import "os"

// dropFromCache is a Linux ability; elsewhere the system decides alone.
func dropFromCache(f *os.File, begin, end int64) {}
