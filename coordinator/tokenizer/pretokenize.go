package tokenizer

import (
	"strings"
	"unicode"
)

// preTokenizer splits the pieces that are still text; merges never cross the borders that it sets.
type preTokenizer interface {
	preTokenize(pieces []piece) []piece
}

// splitter cuts text at the matches of a pattern.
type splitter struct {
	find     func(text string) []segment
	behavior behavior
	invert   bool // matches and gaps change roles
}

func (s splitter) preTokenize(pieces []piece) []piece {
	return splitPieces(pieces, func(p piece, emit func(string, bool)) {
		segments := s.find(p.text)
		if s.invert {
			for i := range segments {
				segments[i].match = !segments[i].match
			}
		}
		for _, g := range s.behavior.apply(segments) {
			emit(p.text[g.start:g.end], p.first && g.start == 0)
		}
	})
}

// byteLevel maps bytes to GPT-2's characters, after its own split if useRegex.
type byteLevel struct {
	addPrefixSpace bool
	useRegex       *pattern // nil: no split
	keepBytes      bool     // leave the mapping to the model (the last stage)
}

func (b byteLevel) preTokenize(pieces []piece) []piece {
	return splitPieces(pieces, func(p piece, emit func(string, bool)) {
		text := p.text
		if b.addPrefixSpace && !strings.HasPrefix(text, " ") {
			text = " " + text
		}
		put := func(s string, first bool) {
			if !b.keepBytes {
				s = toByteLevel(s)
			}
			emit(s, first)
		}
		if b.useRegex == nil {
			put(text, p.first)
			return
		}
		for _, g := range b.useRegex.segments(text) {
			put(text[g.start:g.end], p.first && g.start == 0)
		}
	})
}

// metaspace writes spaces as one visible character and splits before each.
type metaspace struct {
	replacement string
	scheme      prependScheme
	split       bool
}

type prependScheme int

const (
	prependAlways prependScheme = iota
	prependFirst                // only at the beginning of the whole text
	prependNever
)

func (m metaspace) preTokenize(pieces []piece) []piece {
	cut := splitter{find: func(s string) []segment { return findLiteral(s, m.replacement) }, behavior: mergedWithNext}
	for i := range pieces {
		p := &pieces[i]
		if p.id != noID {
			continue
		}
		p.text = strings.ReplaceAll(p.text, " ", m.replacement)
		if (m.scheme == prependAlways || m.scheme == prependFirst && p.first) && !strings.HasPrefix(p.text, m.replacement) {
			p.text = m.replacement + p.text
		}
	}
	if !m.split {
		return pieces
	}
	return cut.preTokenize(pieces)
}

// digits splits off numbers, each character alone or whole runs.
func digits(individual bool) splitter {
	b := contiguous
	if individual {
		b = isolated
	}
	return splitter{find: func(s string) []segment { return findRunes(s, unicode.IsNumber) }, behavior: b}
}
