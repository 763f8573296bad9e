package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isSpace is Python's str.isspace for one character.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F
}

// splitLines is Python's str.splitlines.
func splitLines(s string, keepEnds bool) []string {
	var out []string
	start := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch r {
		case '\n', '\r', '\v', '\f', 0x1C, 0x1D, 0x1E, 0x85, 0x2028, 0x2029:
		default:
			i += n
			continue
		}
		end := i + n
		if r == '\r' && strings.HasPrefix(s[end:], "\n") {
			end++
		}
		if keepEnds {
			i = end
		}
		out = append(out, s[start:i])
		start, i = end, end
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

// splitSpace is Python's split and rsplit without a separator: on runs of white space, at most limit times (-1: no limit).
func splitSpace(s string, limit int64, fromRight bool) []string {
	var out []string
	trim, index := strings.TrimLeftFunc, strings.IndexFunc
	if fromRight {
		trim, index = strings.TrimRightFunc, strings.LastIndexFunc
	}
	for s = trim(s, isSpace); s != ""; s = trim(s, isSpace) {
		i := index(s, isSpace)
		if i < 0 || limit >= 0 && int64(len(out)) >= limit {
			out = append(out, s) // the rest, with the white space at its far end
			break
		}
		if fromRight {
			_, n := utf8.DecodeRuneInString(s[i:])
			out, s = append(out, s[i+n:]), s[:i]
		} else {
			out, s = append(out, s[:i]), s[i:]
		}
	}
	if fromRight {
		slices.Reverse(out)
	}
	return out
}

// capitalize is Python's str.capitalize.
func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToTitle(r)) + strings.ToLower(s[n:])
}

// title capitalizes each word, where a word begins behind a character for which border is true.
func title(s string, border func(r rune) bool) string {
	var b strings.Builder
	start := true
	for _, r := range s {
		switch {
		case border(r):
			start = true
		case start:
			r = unicode.ToTitle(r)
			start = false
		default:
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
