package bench

import (
	"fmt"

	"github.com/moepool/moepool/internal/bytesize"
)

// Memory is what this process may still take.
type Memory struct {
	Available int64  // bytes; 0 is unknown
	Why       string // where the number comes from
}

// Check refuses a need that is more than there is.
func (m Memory) Check(bytes int64, purpose string) error {
	if m.Available > 0 && bytes > m.Available {
		return fmt.Errorf("%s: %s needed, available are %s (%s)", purpose, bytesize.Text(bytes), bytesize.Text(m.Available), m.Why)
	}
	return nil
}
