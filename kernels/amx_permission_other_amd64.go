//go:build !linux && !purego

package kernels

import "errors"

func amxPermission() error { return errors.New("AMX is used on Linux only") }
