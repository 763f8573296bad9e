package generation

import (
	"strings"

	"github.com/moepool/moepool/coordinator/tokenizer"
)

// stopText decodes tokens and holds back text that may be the beginning of a stop string.
type stopText struct {
	stream  *tokenizer.Stream
	stops   []string
	held    string
	stopped bool // a stop string was found; held is empty and nothing comes any more
}

func newStopText(s *tokenizer.Stream, stops []string) *stopText {
	return &stopText{stream: s, stops: stops}
}

// next takes a token and gives the text that is certain not to belong to a stop string.
func (t *stopText) next(token int32) string { return t.take(t.stream.Next(token), false) }

// flush gives what was held back at the end of the answer.
func (t *stopText) flush() string { return t.take(t.stream.Flush(), true) }

func (t *stopText) take(text string, final bool) string {
	if t.stopped {
		return ""
	}
	t.held += text
	if at := earliest(t.held, t.stops); at >= 0 {
		out := t.held[:at]
		t.held, t.stopped = "", true
		return out
	}
	keep := 0
	if !final {
		keep = longestPrefixAtEnd(t.held, t.stops)
	}
	out := t.held[:len(t.held)-keep]
	t.held = t.held[len(out):]
	return out
}

// earliest is where the first of the stop strings begins, or -1.
func earliest(s string, stops []string) int {
	first := -1
	for _, stop := range stops {
		if at := strings.Index(s, stop); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// longestPrefixAtEnd is the length of the longest end of s that begins a stop string.
func longestPrefixAtEnd(s string, stops []string) int {
	longest := 0
	for _, stop := range stops {
		for n := min(len(stop)-1, len(s)); n > longest; n-- {
			if strings.HasSuffix(s, stop[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}
