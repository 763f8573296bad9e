//go:build !amd64

package team

// pause does nothing: reading the clock between two looks is pause enough.
func pause() {}
