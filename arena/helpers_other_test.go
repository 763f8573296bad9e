//go:build !linux

package arena

var roles map[string]func(dir string) error
