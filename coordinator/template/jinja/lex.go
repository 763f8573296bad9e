package jinja

import (
	"fmt"
	"strings"
	"unicode"
)

// section is a part of a template: text that is written as it is, or the expression tokens of a tag.
type section struct {
	kind   sectionKind
	text   string  // of sectionText
	tokens []token // of the others, without their braces
	line   int
}

type sectionKind int

const (
	sectionText      sectionKind = iota
	sectionOutput                // {{ … }}
	sectionStatement             // {% … %}
)

// lexer cuts a template into sections, with trim_blocks and lstrip_blocks on, as Hugging Face has them: the newline after a block
// tag or comment goes, and so does the white space between the start of a line and one. A minus in a tag removes all white space on
// its side, a plus keeps all.
type lexer struct {
	source    string
	at        int
	lineStart bool // what was read last ended with a newline, or nothing was read
	lines     int  // newlines before counted
	counted   int
	sections  []section
}

// lex reads a template. Newlines are \n from here on, and one at the very end goes (Jinja's keep_trailing_newline is off).
func lex(source string) ([]section, error) {
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	l := &lexer{source: strings.TrimSuffix(source, "\n"), lineStart: true}
	for l.at < len(l.source) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	return l.sections, nil
}

// line is the number of the line at which the lexer is.
func (l *lexer) line() int {
	l.lines += strings.Count(l.source[l.counted:l.at], "\n")
	l.counted = l.at
	return 1 + l.lines
}

// next reads text up to the next tag, and the tag.
func (l *lexer) next() error {
	rest := l.source[l.at:]
	open := -1
	for i := 0; i+1 < len(rest); i++ {
		if rest[i] == '{' && (rest[i+1] == '{' || rest[i+1] == '%' || rest[i+1] == '#') {
			open = i
			break
		}
	}
	if open < 0 {
		l.text(rest)
		l.at = len(l.source)
		return nil
	}
	text, tag := rest[:open], rest[open:]
	sign := byte(0)
	if len(tag) > 2 && (tag[2] == '-' || tag[2] == '+') {
		sign = tag[2]
	}
	body := 2
	if sign != 0 {
		body = 3
	}
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	case sign != '+' && tag[1] != '{':
		text = l.stripLine(text)
	}
	l.text(text)
	l.at += open
	if tag[1] == '#' {
		return l.comment(body)
	}
	if tag[1] == '%' {
		if n, ok := keywordTag(tag[body:], "raw"); ok {
			return l.raw(body + n)
		}
	}
	return l.tag(tag[1], body)
}

// stripLine removes white space between the last newline and a block tag.
func (l *lexer) stripLine(text string) string {
	start := strings.LastIndexByte(text, '\n') + 1
	if start == 0 && !l.lineStart {
		return text
	}
	if strings.TrimSpace(text[start:]) == "" {
		return text[:start]
	}
	return text
}

func (l *lexer) text(s string) {
	if s != "" {
		l.sections = append(l.sections, section{kind: sectionText, text: s, line: l.line()})
	}
}

// advance moves behind n more bytes.
func (l *lexer) advance(n int) {
	if n > 0 {
		l.lineStart = l.source[l.at+n-1] == '\n'
	}
	l.at += n
}

// closing gives the length of the end of a tag at the start of s, with the white space that it takes along; 0 if there is none.
// mark is the character before the brace: '%', '#' or '}'.
func closing(s string, mark byte) int {
	sign := byte(0)
	n := 0
	if s != "" && (s[0] == '-' || s[0] == '+' && mark != '}') {
		sign, n = s[0], 1
	}
	if len(s) < n+2 || s[n] != mark || s[n+1] != '}' {
		return 0
	}
	n += 2
	switch {
	case sign == '-':
		n = len(s) - len(strings.TrimLeftFunc(s[n:], unicode.IsSpace))
	case sign == 0 && mark != '}' && strings.HasPrefix(s[n:], "\n"):
		n++
	}
	return n
}

func (l *lexer) comment(body int) error {
	rest := l.source[l.at:]
	for i := body; i < len(rest); i++ {
		if n := closing(rest[i:], '#'); n > 0 {
			l.advance(i + n)
			return nil
		}
	}
	return fmt.Errorf("line %d: comment has no end", l.line())
}

// keywordTag says whether s, behind the start of a tag, is only a keyword and the end of the tag; n is the length of both.
func keywordTag(s, keyword string) (n int, ok bool) {
	t := strings.TrimLeftFunc(s, unicode.IsSpace)
	t, ok = strings.CutPrefix(t, keyword)
	if !ok {
		return 0, false
	}
	t = strings.TrimLeftFunc(t, unicode.IsSpace)
	// Of raw the end tag takes no newline along.
	switch {
	case strings.HasPrefix(t, "-%}"):
		t = strings.TrimLeftFunc(t[3:], unicode.IsSpace)
	case strings.HasPrefix(t, "%}"):
		t = t[2:]
	default:
		return 0, false
	}
	return len(s) - len(t), true
}

// raw reads up to {% endraw %}; n is the length of {% raw %}.
func (l *lexer) raw(n int) error {
	line := l.line()
	l.advance(n)
	rest := l.source[l.at:]
	for i := 0; ; i += 2 {
		j := strings.Index(rest[i:], "{%")
		if j < 0 {
			return fmt.Errorf("line %d: raw has no endraw", line)
		}
		i += j
		inner := rest[i+2:]
		sign := byte(0)
		if inner != "" && (inner[0] == '-' || inner[0] == '+') {
			sign, inner = inner[0], inner[1:]
		}
		t, ok := strings.CutPrefix(strings.TrimLeftFunc(inner, unicode.IsSpace), "endraw")
		if !ok {
			continue
		}
		t = strings.TrimLeftFunc(t, unicode.IsSpace)
		end := closing(t, '%')
		if end == 0 {
			continue
		}
		text := rest[:i]
		if sign == '-' {
			text = strings.TrimRightFunc(text, unicode.IsSpace)
		} else if sign == 0 {
			text = l.stripLine(text)
		}
		l.text(text)
		l.advance(len(rest) - len(t) + end)
		return nil
	}
}

// tag reads the tokens of {{ }} or {% %}; body is the length of its beginning.
func (l *lexer) tag(kind byte, body int) error {
	s := section{kind: sectionStatement, line: l.line()}
	mark := byte('%')
	if kind == '{' {
		s.kind, mark = sectionOutput, '}'
	}
	l.advance(body)
	depth := 0 // of brackets: a }} inside them closes dicts, not the tag
	for {
		rest := l.source[l.at:]
		trimmed := strings.TrimLeftFunc(rest, unicode.IsSpace)
		l.advance(len(rest) - len(trimmed))
		if trimmed == "" {
			return fmt.Errorf("line %d: tag has no end", s.line)
		}
		if depth == 0 {
			if n := closing(trimmed, mark); n > 0 {
				l.advance(n)
				l.sections = append(l.sections, s)
				return nil
			}
		}
		t, n, err := readToken(trimmed)
		if err != nil {
			return fmt.Errorf("line %d: %w", l.line(), err)
		}
		t.line = l.line()
		switch t.text {
		case "(", "[", "{":
			if t.kind == tokenOperator {
				depth++
			}
		case ")", "]", "}":
			if t.kind == tokenOperator {
				if depth--; depth < 0 {
					return fmt.Errorf("line %d: unexpected %q", l.line(), t.text)
				}
			}
		}
		s.tokens = append(s.tokens, t)
		l.advance(n)
	}
}
