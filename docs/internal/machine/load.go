// Package machine says what the programs that measure print of the machine that they run on.
package machine

import (
	"os"
	"strings"
)

// Load is the first figure of the load average, or "unknown".
func Load() string {
	line, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(line), " ")
	return first
}
