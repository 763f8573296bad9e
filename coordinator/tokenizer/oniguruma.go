package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// translateOniguruma rewrites a pattern of tokenizer.json, which Hugging Face gives to Oniguruma with Ruby's syntax, for regexp2,
// whose syntax is .NET's. Most of it is the same; what differs:
//
//   - ^ and $ match at every line
//   - (?m) lets the dot match newlines (.NET: (?s)); an option group inside a group covers the rest of it, alternatives included
//   - X{1,3}+ repeats X{1,3} (.NET with possessive quantifiers: possessive)
//   - classes nest ([a[bc]]), intersect ([a-z&&[^b]]) and have POSIX names ([[:alpha:]])
//   - \h is a hexadecimal digit, \w has letters, marks and numbers of every script, \p{^L} is \P{L}
//
// What cannot be said in .NET's syntax, and what is too rare to be worth it, is an error: it must not match something else silently.
func translateOniguruma(source string) (string, error) {
	if !utf8.ValidString(source) {
		return "", errors.New("not valid UTF-8")
	}
	t := &translator{rest: source}
	if err := t.alternatives(); err != nil {
		return "", err
	}
	if t.rest != "" {
		return "", errors.New("unmatched )")
	}
	return string(t.out), nil
}

const maxGroupDepth = 200

var errPatternEnd = errors.New("pattern ends too early")

type translator struct {
	rest  string // what is still to be read
	out   []byte
	depth int
}

// alternatives reads up to the end or to the ) of the enclosing group, which it leaves.
func (t *translator) alternatives() error {
	if t.depth++; t.depth > maxGroupDepth {
		return fmt.Errorf("groups nested deeper than %d", maxGroupDepth)
	}
	defer func() { t.depth-- }()
	for t.rest != "" && t.rest[0] != ')' {
		if t.take("|") {
			t.write("|")
			continue
		}
		if err := t.quantified(); err != nil {
			return err
		}
	}
	return nil
}

// quantified reads one atom and the quantifiers behind it.
func (t *translator) quantified() error {
	start := len(t.out)
	if err := t.atom(); err != nil {
		return err
	}
	if t.rest == "" || !strings.ContainsRune("*+?{", rune(t.rest[0])) {
		return nil
	}
	atom := string(t.out[start:])
	t.out = t.out[:start]
	for first := true; ; first = false {
		q, again := t.quantifier()
		if q == "" {
			break
		}
		if !first {
			atom = "(?:" + atom + ")"
		}
		atom += q
		if again != "" {
			atom = "(?:" + atom + ")" + again
		}
		if len(atom) > 4*maxPatternLength {
			return errors.New("too long")
		}
	}
	t.write(atom)
	return nil
}

// quantifier reads one quantifier; again is a second one that applies to the result of the first.
func (t *translator) quantifier() (q, again string) {
	if t.rest == "" {
		return "", ""
	}
	switch c := t.rest[0]; c {
	case '*', '+', '?':
		q, t.rest = string(c), t.rest[1:]
		if t.take("?") {
			q += "?"
		} else if t.take("+") {
			q += "+"
		}
		return q, ""
	case '{':
		low, high, fixed, n := parseInterval(t.rest)
		if n == 0 {
			return "", ""
		}
		t.rest = t.rest[n:]
		if low == "" {
			low = "0"
		}
		q = "{" + low + "," + high + "}"
		if fixed {
			q = "{" + low + "}"
		}
		switch {
		case t.take("+"):
			again = "+"
		case fixed && t.take("?"):
			again = "?" // Ruby: {n}? is optional, not lazy
		case t.take("?"):
			q += "?"
		}
		return q, again
	}
	return "", ""
}

// parseInterval reads {n}, {n,}, {,m} or {n,m}; n is its length, 0 if it is none (then the brace is a literal).
func parseInterval(s string) (low, high string, fixed bool, n int) {
	end := strings.IndexByte(s, '}')
	if end < 0 {
		return "", "", false, 0
	}
	low, high, comma := strings.Cut(s[1:end], ",")
	if low == "" && high == "" || !isDigits(low) || !isDigits(high) || len(low) > 6 || len(high) > 6 {
		return "", "", false, 0
	}
	return low, high, !comma, end + 1
}

func isDigits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

func (t *translator) atom() error {
	switch c := t.rest[0]; c {
	case '(':
		return t.group()
	case '[':
		class, err := t.class()
		t.write(class)
		return err
	case '\\':
		e, err := t.escape(false)
		t.write(e)
		return err
	case '^', '$':
		t.rest = t.rest[1:]
		t.write("(?m:" + string(c) + ")")
	case '.':
		t.rest = t.rest[1:]
		t.write(".")
	case '*', '+', '?':
		return fmt.Errorf("nothing to repeat before %q", c)
	default:
		t.write(quoteRune(t.rune()))
	}
	return nil
}

// group reads a parenthesis and what belongs to it.
func (t *translator) group() error {
	for _, open := range []string{"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"} {
		if t.take(open) {
			t.write(open)
			return t.closeGroup()
		}
	}
	if t.take("(?#") {
		_, rest, ok := strings.Cut(t.rest, ")")
		if !ok {
			return errPatternEnd
		}
		t.rest = rest
		return nil
	}
	if !t.take("(?") {
		t.rest = t.rest[1:]
		t.write("(")
		return t.closeGroup()
	}
	n := strings.IndexAny(t.rest, ":)")
	if n < 0 {
		return errPatternEnd
	}
	options := t.rest[:n]
	if options == "" || strings.Trim(options, "im-") != "" {
		return fmt.Errorf("group (?%s is not supported (only i and m)", options)
	}
	inline := t.rest[n] == ')'
	t.rest = t.rest[n+1:]
	t.write("(?" + strings.ReplaceAll(options, "m", "s") + ":")
	if !inline {
		return t.closeGroup()
	}
	// (?i) covers the rest of the group around it, whose ) stays for that group.
	err := t.alternatives()
	t.write(")")
	return err
}

func (t *translator) closeGroup() error {
	if err := t.alternatives(); err != nil {
		return err
	}
	if !t.take(")") {
		return errPatternEnd
	}
	t.write(")")
	return nil
}

func (t *translator) write(s string) { t.out = append(t.out, s...) }

func (t *translator) take(prefix string) bool {
	rest, ok := strings.CutPrefix(t.rest, prefix)
	t.rest = rest
	return ok
}

// rune reads one character; there must be one.
func (t *translator) rune() rune {
	r, n := utf8.DecodeRuneInString(t.rest)
	t.rest = t.rest[n:]
	return r
}

// quoteRune writes a literal character so that it means itself outside and inside a class.
func quoteRune(r rune) string {
	switch {
	case strings.ContainsRune(`\*+?|{}[]()^$.#-&`, r):
		return `\` + string(r)
	case r < ' ' || r >= 0x7F && r < 0xA0:
		return fmt.Sprintf(`\u%04X`, r)
	}
	return string(r)
}
