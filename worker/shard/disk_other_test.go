//go:build !linux

package shard

import "testing"

func smallDisk(t *testing.T, size string) string {
	t.Skipf("a disk of %s can be made on Linux only", size)
	return ""
}
