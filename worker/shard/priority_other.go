//go:build !linux

package shard

// lowerPriority does nothing: priorities of single threads are Linux's.
func lowerPriority() {}
