package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenString
	tokenInteger
	tokenFloat
	tokenOperator
)

type token struct {
	kind  tokenKind
	text  string // the name, the operator, or the decoded string
	value Value  // of numbers
	line  int
}

var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

// readToken reads the token at the start of s, which is neither empty nor white space.
func readToken(s string) (token, int, error) {
	if c := s[0]; c == '"' || c == '\'' {
		return readString(s)
	} else if c >= '0' && c <= '9' {
		return readNumber(s)
	}
	n := 0
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && !(i > 0 && (unicode.IsDigit(r) || unicode.IsMark(r))) {
			break
		}
		n = i + utf8.RuneLen(r)
	}
	if n > 0 {
		return token{kind: tokenName, text: s[:n]}, n, nil
	}
	for _, o := range operators {
		if strings.HasPrefix(s, o) {
			return token{kind: tokenOperator, text: o}, len(o), nil
		}
	}
	r, _ := utf8.DecodeRuneInString(s)
	return token{}, 0, fmt.Errorf("unexpected character %q", r)
}

func readNumber(s string) (token, int, error) {
	digits := func(i int) int {
		for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '_' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9') {
			i++
		}
		return i
	}
	isFloat := false
	n := digits(0)
	if n == 1 && s[0] == '0' && len(s) > 2 && strings.IndexByte("bBoOxX", s[1]) >= 0 {
		n = 2
		for n < len(s) && (s[n] == '_' || isHex(s[n])) {
			n++
		}
		i, err := strconv.ParseInt(s[:n], 0, 64)
		return token{kind: tokenInteger, text: s[:n], value: i}, n, err
	}
	if n+1 < len(s) && s[n] == '.' && s[n+1] >= '0' && s[n+1] <= '9' {
		isFloat = true
		n = digits(n + 1)
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		m := n + 1
		if m < len(s) && (s[m] == '+' || s[m] == '-') {
			m++
		}
		if end := digits(m); end > m {
			isFloat, n = true, end
		}
	}
	text := strings.ReplaceAll(s[:n], "_", "")
	if isFloat {
		f, err := strconv.ParseFloat(text, 64)
		return token{kind: tokenFloat, text: s[:n], value: f}, n, err
	}
	i, err := strconv.ParseInt(text, 10, 64)
	return token{kind: tokenInteger, text: s[:n], value: i}, n, err
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// readString reads a string literal with Python's escapes.
func readString(s string) (token, int, error) {
	var b strings.Builder
	for i := 1; i < len(s); {
		switch c := s[i]; {
		case c == s[0]:
			return token{kind: tokenString, text: b.String()}, i + 1, nil
		case c != '\\':
			b.WriteByte(c)
			i++
		default:
			r, n, keep, err := readEscape(s[i:])
			if err != nil {
				return token{}, 0, err
			}
			if keep {
				b.WriteString(s[i : i+n])
			} else if r >= 0 {
				b.WriteRune(r)
			}
			i += n
		}
	}
	return token{}, 0, fmt.Errorf("string has no end: %.20q", s)
}

var simpleEscapes = map[byte]rune{
	'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"', 'a': '\a', 'b': '\b', 'f': '\f', 'v': '\v', '\n': -1,
}

// readEscape reads a backslash and what belongs to it, n bytes: a character, nothing (-1, a continued line), or, where Python knows
// no such escape, the text itself (keep).
func readEscape(s string) (r rune, n int, keep bool, err error) {
	if len(s) < 2 {
		return 0, 0, false, fmt.Errorf("string has no end")
	}
	if r, ok := simpleEscapes[s[1]]; ok {
		return r, 2, false, nil
	}
	size := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
	if size == 0 {
		n := 1
		for n < len(s) && n < 4 && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		if n == 1 {
			return 0, 2, true, nil
		}
		v, _ := strconv.ParseUint(s[1:n], 8, 32)
		return rune(v), n, false, nil
	}
	if len(s) < 2+size {
		return 0, 0, false, fmt.Errorf("escape %q is too short", s)
	}
	v, err := strconv.ParseUint(s[2:2+size], 16, 32)
	if err != nil || v > utf8.MaxRune {
		return 0, 0, false, fmt.Errorf("escape %q is not a character", s[:2+size])
	}
	return rune(v), 2 + size, false, nil
}
