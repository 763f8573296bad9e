package kernels

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// What the kernel says that this CPU has is found: else tests of whole implementations would be skipped, and users get slower ones.
func TestFeatures(t *testing.T) {
	t.Parallel()
	if strings.Contains(os.Getenv("GODEBUG"), "cpu.") {
		t.Skip("GODEBUG takes features away")
	}
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip(err)
	}
	var flags []string
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			flags = strings.Fields(value)
			break
		}
	}
	for _, f := range Features() {
		if slices.Contains(flags, f.Name) && !f.Present {
			t.Errorf("this CPU has %s, which is not found", f.Name)
		}
	}
	for _, name := range Known() { // make test lists them
		t.Run(name, func(t *testing.T) {
			if _, err := Select(name); err != nil {
				t.Skipf("SKIPPED: all tests of kernels %s: %v", name, err)
			}
		})
	}
}
