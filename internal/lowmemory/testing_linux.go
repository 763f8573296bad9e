package lowmemory

import (
	"errors"
	"testing"

	"github.com/moepool/moepool/internal/lacking"
)

// ForTest makes a group that ends with the test. Where none can be made the test is skipped, but not in CI.
func ForTest(t testing.TB, limit int64) *Group {
	t.Helper()
	g, err := New(limit)
	if errors.Is(err, ErrUnavailable) {
		lacking.Skip(t, "%v", err)
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
