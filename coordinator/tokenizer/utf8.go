package tokenizer

import (
	"strings"
	"unicode/utf8"
)

const replacement = "\uFFFD"

// validUTF8 is Rust's String::from_utf8_lossy: each maximal invalid part becomes one U+FFFD. (Go's own conversions write one for
// each byte or one for each run.)
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for len(s) > 0 {
		n, state := nextUTF8(s)
		if state == utf8Valid {
			b.WriteString(s[:n])
		} else {
			b.WriteString(replacement)
		}
		s = s[n:]
	}
	return b.String()
}

type utf8State int

const (
	utf8Valid      utf8State = iota // a whole character
	utf8Invalid                     // a maximal part that no continuation could make valid
	utf8Incomplete                  // the text ends inside a character that could become valid
)

// nextUTF8 looks at the start of s (not empty) and gives the length of the character or of the maximal invalid part there
// (Unicode 15, section 3.9, "U+FFFD Substitution of Maximal Subparts").
func nextUTF8[T string | []byte](s T) (int, utf8State) {
	c := s[0]
	if c < 0x80 {
		return 1, utf8Valid
	}
	low, high := byte(0x80), byte(0xBF) // valid second bytes
	var size int
	switch {
	case c >= 0xC2 && c <= 0xDF:
		size = 2
	case c >= 0xE0 && c <= 0xEF:
		size = 3
		if c == 0xE0 {
			low = 0xA0
		} else if c == 0xED {
			high = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		size = 4
		if c == 0xF0 {
			low = 0x90
		} else if c == 0xF4 {
			high = 0x8F
		}
	default:
		return 1, utf8Invalid
	}
	for i := 1; i < size; i++ {
		if i == len(s) {
			return i, utf8Incomplete
		}
		if s[i] < low || s[i] > high {
			return i, utf8Invalid
		}
		low, high = 0x80, 0xBF
	}
	return size, utf8Valid
}
