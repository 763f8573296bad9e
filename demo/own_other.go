//go:build !unix

package demo

import "os"

// ownFolder makes the folder; the temporary folder belongs to the user here.
func ownFolder(path string) (string, error) { return path, os.MkdirAll(path, 0o700) }
