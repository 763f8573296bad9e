package arena

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/moepool/moepool/internal/lowmemory"
)

// dropCache takes a file that nobody maps out of the page cache.
func dropCache(t *testing.T, path string) {
	t.Helper()
	if err := lowmemory.Forget(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
}

// evictLimit is how long a page may stay that was dropped: the kernel keeps one as long as it is busy moving it, to make room for huge pages.
const evictLimit = time.Minute

// evict drops slots, and again until they are no longer in memory.
func evict(t *testing.T, a *Arena, slots ...int) {
	t.Helper()
	for _, slot := range slots {
		for begin := time.Now(); ; time.Sleep(time.Millisecond) {
			if err := a.Evict(slot); err != nil {
				t.Fatal(err)
			}
			if !a.Resident(slot) {
				break
			}
			if time.Since(begin) > evictLimit {
				t.Fatalf("slot %d was evicted, but is resident", slot)
			}
		}
	}
}
