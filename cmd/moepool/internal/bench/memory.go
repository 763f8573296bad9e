package bench

import (
	"fmt"
)

// Memory is what this process may still take.
type Memory struct {
	Available int64  // bytes; 0 is unknown
	Why       string // where the number comes from
}

// Check refuses a need that is more than there is.
func (m Memory) Check(bytes int64, purpose string) error {
	if m.Available > 0 && bytes > m.Available {
		return fmt.Errorf("%s: %d MiB needed, available are %d MiB (%s)", purpose, bytes>>20, m.Available>>20, m.Why)
	}
	return nil
}
