//go:build linux

// Package lowmemory lets tests and measurements run the program with little memory: in a memory group of its own, from files that
// are not in the page cache. It owns how groups of version 1 and 2 are made; it knows nothing of the program, and is for Linux only.
package lowmemory

import "errors"

// ErrUnavailable says that no memory group can be made here: no memory controller, or not root.
var ErrUnavailable = errors.New("no memory group can be made here")
