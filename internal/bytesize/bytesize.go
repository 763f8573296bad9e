// Package bytesize owns how sizes in bytes are read from flags and settings and written for people. It must not know what they are sizes of.
package bytesize

import (
	"fmt"
	"math"
	"strings"

	"github.com/dustin/go-humanize"
)

// Parse reads a whole number of bytes or a number with a unit, in any case: GiB, MiB, KiB are powers of 1024, GB, MB, KB powers of 1000.
// It is above 0.
func Parse(text string) (int64, error) {
	text = strings.TrimSpace(text)
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 || n == 0 {
		return 0, fmt.Errorf("%q is no size; valid are numbers of bytes above 0, and sizes such as 4GiB, 1.5GiB, 800MiB or 4GB", text)
	}
	return int64(n), nil
}

// Text is a size in binary units, with two digits at least: 1.5 GiB, 24 GiB, 300 MiB.
func Text(n int64) string {
	if n < 0 {
		return "-" + humanize.IBytes(-uint64(n))
	}
	return humanize.IBytes(uint64(n))
}
