//go:build !linux

package arena

import "testing"

func diskDir(t *testing.T) string { return t.TempDir() }

var roles map[string]func(dir string) error
