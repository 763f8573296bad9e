package arena

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// PageSize is what pages slots may be mapped by.
type PageSize string

const (
	HugePagesAuto  PageSize = "auto"  // huge ones where the kernel can; "" means the same
	HugePagesNever PageSize = "never" // none: cold slots are read and reclaimed by small pages
)

// ParsePageSize reads a flag's value.
func ParsePageSize(s string) (PageSize, error) {
	switch p := PageSize(s); p {
	case HugePagesAuto, HugePagesNever:
		return p, nil
	}
	return "", fmt.Errorf("huge pages %q, valid are %q and %q", s, HugePagesAuto, HugePagesNever)
}

// HugePages says how much of a store's resident memory this process has mapped, and how much of it as huge pages; bytes.
type HugePages struct {
	Resident  int64 `json:"resident"`
	File      int64 `json:"file"`      // of files (tmpfs included) in huge pages
	Anonymous int64 `json:"anonymous"` // anonymous memory in huge pages
}

// Share is the share of the resident bytes that are mapped as huge pages; 0 with none resident.
func (h HugePages) Share() float64 {
	if h.Resident == 0 {
		return 0
	}
	return float64(h.File+h.Anonymous) / float64(h.Resident)
}

// HugePages reads /proc/self/smaps; the kernel walks all page tables for it, so it is not for hot paths. Elsewhere than on
// Linux the error is errors.ErrUnsupported.
func (s *Store) HugePages() (HugePages, error) {
	var ranges []span
	for _, a := range s.all() {
		for _, m := range a.Mappings() {
			ranges = append(ranges, span{uint64(address(m)), uint64(address(m)) + uint64(len(m))})
		}
	}
	smaps, err := openSmaps()
	if err != nil {
		return HugePages{}, fmt.Errorf("arena: %w", err)
	}
	defer smaps.Close()
	return sumSmaps(smaps, ranges)
}

// span is a range of addresses, end excluded.
type span struct{ from, to uint64 }

func sumSmaps(smaps io.Reader, ranges []span) (HugePages, error) {
	var h HugePages
	ours := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		if from, to, ok := parseRange(name); ok {
			ours = false
			for _, r := range ranges {
				ours = ours || from < r.to && r.from < to
			}
			continue
		}
		if !ours {
			continue
		}
		var into *int64
		switch name {
		case "Rss:":
			into = &h.Resident
		case "FilePmdMapped:", "ShmemPmdMapped:":
			into = &h.File
		case "AnonHugePages:":
			into = &h.Anonymous
		default:
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
		if err != nil {
			return HugePages{}, fmt.Errorf("arena: smaps: %q: %w", lines.Text(), err)
		}
		*into += kilobytes << 10
	}
	return h, lines.Err()
}

func parseRange(s string) (from, to uint64, ok bool) {
	a, b, ok := strings.Cut(s, "-")
	if !ok {
		return 0, 0, false
	}
	from, err := strconv.ParseUint(a, 16, 64)
	if err != nil {
		return 0, 0, false
	}
	to, err = strconv.ParseUint(b, 16, 64)
	return from, to, err == nil
}
