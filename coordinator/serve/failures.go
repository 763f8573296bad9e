package serve

import (
	"slices"
	"sync"
	"time"
)

const (
	failuresKept = 20
	failureText  = 1000 // bytes
)

// failures are the latest failed requests.
type failures struct {
	mu   sync.Mutex
	kept []Failure // oldest first
}

func (f *failures) add(now time.Time, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.kept) == failuresKept {
		f.kept = slices.Delete(f.kept, 0, 1)
	}
	f.kept = append(f.kept, Failure{now, text[:min(len(text), failureText)]})
}

// list is never nil.
func (f *failures) list() []Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Failure{}, f.kept...)
}
