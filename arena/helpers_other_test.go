//go:build !linux

package arena

import "testing"

func diskDir(t *testing.T) string { return t.TempDir() }

func holdFolder(string) {}
