package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// segment is a match of a pattern, or the gap between two. Segments of a text are in order and cover it.
type segment struct {
	start, end int
	match      bool
}

// behavior says what becomes of the matches.
type behavior int

const (
	isolated           behavior = iota // each match is a piece
	removed                            // matches disappear
	contiguous                         // neighbouring matches form one piece
	mergedWithPrevious                 // a match ends the gap before it
	mergedWithNext                     // a match starts the gap after it
)

var behaviorNames = map[string]behavior{
	"Isolated": isolated, "Removed": removed, "Contiguous": contiguous,
	"MergedWithPrevious": mergedWithPrevious, "MergedWithNext": mergedWithNext,
}

// apply gives the pieces, in order.
func (b behavior) apply(segments []segment) []segment {
	switch b {
	case removed:
		return slices.DeleteFunc(segments, func(g segment) bool { return g.match })
	case contiguous:
		return joinSegments(segments, func(matched bool, g segment) bool { return g.match == matched })
	case mergedWithPrevious:
		return joinSegments(segments, func(matched bool, g segment) bool { return g.match && !matched })
	case mergedWithNext:
		// The same from the end.
		slices.Reverse(segments)
		segments = joinSegments(segments, func(matched bool, g segment) bool { return g.match && !matched })
		slices.Reverse(segments)
		return segments
	}
	return segments
}

// joinSegments joins each segment for which join says so with the one before it; matched says whether that one was a match (false at the
// beginning).
func joinSegments(segments []segment, join func(matched bool, g segment) bool) []segment {
	out := segments[:0]
	matched := false
	for _, g := range segments {
		if n := len(out); n > 0 && join(matched, g) {
			out[n-1].start, out[n-1].end = min(out[n-1].start, g.start), max(out[n-1].end, g.end)
		} else {
			out = append(out, g)
		}
		matched = g.match
	}
	return out
}

// segmenter collects matches and fills the gaps between them.
type segmenter struct {
	segments []segment
	done     int
}

func (c *segmenter) match(start, end int) {
	if c.done < start {
		c.segments = append(c.segments, segment{c.done, start, false})
	}
	c.segments = append(c.segments, segment{start, end, true})
	c.done = end
}

func (c *segmenter) finish(length int) []segment {
	if c.done < length {
		c.segments = append(c.segments, segment{c.done, length, false})
	}
	return c.segments
}

// findLiteral finds a string; an empty one is found nowhere.
func findLiteral(s, literal string) []segment {
	var c segmenter
	for at := 0; literal != ""; {
		i := strings.Index(s[at:], literal)
		if i < 0 {
			break
		}
		c.match(at+i, at+i+len(literal))
		at += i + len(literal)
	}
	return c.finish(len(s))
}

// findRunes finds each character of a class.
func findRunes(s string, in func(rune) bool) []segment {
	var c segmenter
	for i, r := range s {
		if in(r) {
			c.match(i, i+utf8.RuneLen(r))
		}
	}
	return c.finish(len(s))
}
