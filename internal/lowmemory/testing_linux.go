package lowmemory

import (
	"errors"
	"os"
	"testing"
)

// ForTest makes a group that ends with the test. Where none can be made the test is skipped, but not in CI.
func ForTest(t testing.TB, limit int64) *Group {
	t.Helper()
	g, err := New(limit)
	if errors.Is(err, ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}
