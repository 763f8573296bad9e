package numa

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxListNumber bounds the numbers of a list, so that a broken file can't ask for gigabytes.
const maxListNumber = 1 << 20

// ParseList reads the kernel's list syntax, such as "0-3,8,10-11" (CPUs, nodes); an empty text is an empty list. The
// result is ascending without repetitions.
func ParseList(text string) ([]int, error) {
	list := []int{}
	for field := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		field = strings.TrimSpace(field)
		if field == "" {
			continue
		}
		low, high, isRange := strings.Cut(field, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.Atoi(low)
		if err != nil {
			return nil, fmt.Errorf("list %q: %q is not a number or a range", text, field)
		}
		to, err := strconv.Atoi(high)
		if err != nil || from < 0 || to < from || to > maxListNumber {
			return nil, fmt.Errorf("list %q: %q is not a number or a range", text, field)
		}
		for n := from; n <= to; n++ {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// FormatList is the inverse of ParseList for an ascending list; an empty list gives "none".
func FormatList(list []int) string {
	if len(list) == 0 {
		return "none"
	}
	var text strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if text.Len() > 0 {
			text.WriteByte(',')
		}
		text.WriteString(strconv.Itoa(list[i]))
		if j > i {
			text.WriteByte('-')
			text.WriteString(strconv.Itoa(list[j]))
		}
		i = j + 1
	}
	return text.String()
}
