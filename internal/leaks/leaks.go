// Package leaks looks for goroutines that a package's tests left behind, with goleak. It knows nothing of what they do.
//
// goleak.VerifyTestMain looks for 0.4 s in all. A goroutine that was told to end, which nobody waits for (such as those of a closed NATS
// connection), needs more than that now and then on a machine with far more to do than CPUs: so the look is repeated for a minute before
// what is still there counts as left.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is only for tests that leak.
const patience = time.Minute

// VerifyTestMain runs a package's tests, and ends the process with an error if one fails or leaves a goroutine.
func VerifyTestMain(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := Find(options...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Find gives the goroutines that tests left and that do not end within a minute, as an error.
func Find(options ...goleak.Option) error {
	if err := find(patience, options...); err != nil {
		return fmt.Errorf("leaks: the tests leave goroutines that have not ended within %s: %w", patience, err)
	}
	return nil
}

// find gives the goroutines that are still there after a while.
func find(patience time.Duration, options ...goleak.Option) error {
	for end := time.Now().Add(patience); ; {
		err := goleak.Find(options...) // looks again for 0.4 s itself
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
