// Package lacking owns what a test does that needs something from outside, such as root or a downloaded model, where that is not there: a user's
// run skips it and says why, CI's fails, since nothing is skipped there. It must know nothing of the project.
package lacking

import (
	"os"
	"testing"
)

// Skip ends a test for lack of what the message says, and with it what would help.
func Skip(t testing.TB, format string, arguments ...any) {
	t.Helper()
	if ci := os.Getenv("CI"); ci != "" {
		t.Fatalf("CI="+ci+", but "+format, arguments...)
	}
	t.Skipf("SKIPPED: "+format, arguments...)
}
