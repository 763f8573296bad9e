//go:build !(linux || darwin || freebsd)

package shard

// freeBytes is not known here: a full disk shows while packing.
func freeBytes(string) int64 { return -1 }
