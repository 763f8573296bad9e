package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Unicode's derived properties, as items of a class.
const (
	alphabetic = `\p{L}\p{Nl}\p{Other_Alphabetic}`
	// wordItems are \w in a class; outside of one Oniguruma takes all numbers for word characters, not only digits and letters.
	wordItems  = alphabetic + `\p{M}\p{Nd}\p{Pc}`
	wordAlone  = wordItems + `\p{No}`
	hexadigits = `0-9a-fA-F`
)

// posixItems are Oniguruma's POSIX classes for Unicode, as items of a class.
var posixItems = map[string]string{
	"alnum": alphabetic + `\p{Nd}`, "alpha": alphabetic, "ascii": `\x00-\x7F`, "blank": `\t\p{Zs}`, "cntrl": `\p{Cc}`, "digit": `\p{Nd}`,
	"lower": `\p{Ll}\p{Other_Lowercase}`, "punct": `\p{P}\p{S}`, "space": `\s`, "upper": `\p{Lu}\p{Other_Uppercase}`, "word": wordItems,
	"xdigit": hexadigits,
}

// escape reads a backslash and what belongs to it. In a class the result is an item of the class.
func (t *translator) escape(inClass bool) (string, error) {
	t.rest = t.rest[1:]
	if t.rest == "" {
		return "", errPatternEnd
	}
	switch c := t.rest[0]; c {
	case 'd', 'D', 's', 'S':
		t.rest = t.rest[1:]
		return `\` + string(c), nil
	case 'w', 'h':
		t.rest = t.rest[1:]
		switch {
		case c == 'h' && inClass:
			return hexadigits, nil
		case c == 'h':
			return "[" + hexadigits + "]", nil
		case inClass:
			return wordItems, nil
		}
		return "[" + wordAlone + "]", nil
	case 'W', 'H':
		if inClass {
			break
		}
		t.rest = t.rest[1:]
		if c == 'H' {
			return "[^" + hexadigits + "]", nil
		}
		return "[^" + wordAlone + "]", nil
	case 'p', 'P':
		return t.property(inClass)
	case 'b', 'B', 'A', 'z', 'Z', 'G', 'R', 'X':
		if inClass && c != 'b' {
			break
		}
		t.rest = t.rest[1:]
		if inClass {
			return `\u0008`, nil
		}
		return `\` + string(c), nil
	default:
		if inClass || c < '1' || c > '9' {
			break
		}
		t.rest = t.rest[1:]
		return `\` + string(c) + `(?:)`, nil // the empty group keeps digits that follow apart
	}
	r, err := t.escapedRune()
	return quoteRune(r), err
}

// escapedRune reads the rest of an escape that stands for one character.
func (t *translator) escapedRune() (rune, error) {
	r := t.rune()
	switch r {
	case 'n':
		return '\n', nil
	case 't':
		return '\t', nil
	case 'r':
		return '\r', nil
	case 'f':
		return '\f', nil
	case 'v':
		return '\v', nil
	case 'a':
		return '\a', nil
	case 'e':
		return 0x1B, nil
	case '0':
		return t.number(0, 2, 8)
	case 'u':
		return t.number(4, 4, 16)
	case 'x':
		if t.take("{") {
			r, err := t.number(1, 8, 16)
			if err == nil && !t.take("}") {
				err = errPatternEnd
			}
			return r, err
		}
		r, err := t.number(1, 2, 16)
		if r >= utf8.RuneSelf { // Oniguruma takes it for a byte of UTF-8
			err = fmt.Errorf(`\\x%X is not ASCII: write \\x{%X}`, r, r)
		}
		return r, err
	}
	if r < utf8.RuneSelf && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') {
		return 0, fmt.Errorf(`\%c is not supported`, r)
	}
	return r, nil
}

// number reads from least to most digits of a character's number.
func (t *translator) number(least, most, base int) (rune, error) {
	n := 0
	for n < most && n < len(t.rest) {
		if _, err := strconv.ParseUint(t.rest[n:n+1], base, 8); err != nil {
			break
		}
		n++
	}
	v, err := strconv.ParseUint("0"+t.rest[:n], base, 32)
	if n < least || err != nil || v > utf8.MaxRune || !utf8.ValidRune(rune(v)) {
		return 0, fmt.Errorf("%q is not the number of a character", t.rest[:n])
	}
	t.rest = t.rest[n:]
	return rune(v), nil
}

// property reads p{Name}, P{Name} or p{^Name}.
func (t *translator) property(inClass bool) (string, error) {
	letter := t.rest[0]
	name, rest, ok := strings.Cut(t.rest[1:], "}")
	if !ok || !strings.HasPrefix(name, "{") {
		return "", fmt.Errorf(`\%c needs a name in braces`, letter)
	}
	name = name[1:]
	if after, ok := strings.CutPrefix(name, "^"); ok {
		name = after
		letter ^= 'p' ^ 'P'
	}
	if items, posix := posixItems[strings.ToLower(name)]; posix {
		if strings.EqualFold(name, "punct") {
			items = `\p{P}` // without the symbols of [[:punct:]]
		}
		t.rest = rest
		switch {
		case inClass && letter == 'P':
			return "", fmt.Errorf(`\P{%s} is not supported in a class`, name)
		case inClass:
			return items, nil
		case letter == 'P':
			return "[^" + items + "]", nil
		}
		return "[" + items + "]", nil
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == ' ' || r == '-') {
			return "", fmt.Errorf("%q is not a property name", name)
		}
	}
	t.rest = rest
	return `\` + string(letter) + "{" + name + "}", nil
}

// class reads a bracket expression and gives an expression that matches one character.
func (t *translator) class() (string, error) {
	if t.depth++; t.depth > maxGroupDepth {
		return "", fmt.Errorf("classes nested deeper than %d", maxGroupDepth)
	}
	defer func() { t.depth-- }()
	t.rest = t.rest[1:]
	negated := t.take("^")
	var operands []string // of &&
	var items strings.Builder
	var nested []string
	operand := func() error {
		if items.Len() > 0 {
			nested = append(nested, "["+items.String()+"]")
		}
		if len(nested) == 0 {
			return errors.New("empty character class")
		}
		x := nested[0]
		if len(nested) > 1 {
			x = "(?:" + strings.Join(nested, "|") + ")"
		}
		operands = append(operands, x)
		items.Reset()
		nested = nil
		return nil
	}
	for first := true; ; first = false {
		switch {
		case t.rest == "":
			return "", errPatternEnd
		case t.rest[0] == ']' && !first:
			t.rest = t.rest[1:]
			if err := operand(); err != nil {
				return "", err
			}
			return joinClass(operands, negated), nil
		case t.take("&&"):
			if err := operand(); err != nil {
				return "", err
			}
		case strings.HasPrefix(t.rest, "[:") && strings.Contains(t.rest, ":]"):
			if err := t.posix(&items); err != nil {
				return "", err
			}
		case t.rest[0] == '[':
			n, err := t.class()
			if err != nil {
				return "", err
			}
			nested = append(nested, n)
		default:
			if err := t.item(&items); err != nil {
				return "", err
			}
		}
	}
}

// joinClass intersects the operands of && and negates the result.
func joinClass(operands []string, negated bool) string {
	x := operands[0]
	if len(operands) > 1 {
		var b strings.Builder
		for _, o := range operands[:len(operands)-1] {
			b.WriteString("(?=" + o + ")")
		}
		x = "(?:" + b.String() + operands[len(operands)-1] + ")"
	}
	switch {
	case !negated:
		return x
	case strings.HasPrefix(x, "[") && !strings.HasPrefix(x, "[^"):
		return "[^" + x[1:]
	}
	return "(?:(?!" + x + `)[\s\S])`
}

func (t *translator) posix(items *strings.Builder) error {
	name, rest, _ := strings.Cut(t.rest[2:], ":]")
	found, ok := posixItems[name]
	if !ok {
		return fmt.Errorf("[:%s:] is not supported", name)
	}
	t.rest = rest
	items.WriteString(found)
	return nil
}

// item reads a character, a range or an escape of a class.
func (t *translator) item(items *strings.Builder) error {
	low, single, err := t.classRune(items)
	if err != nil || !single {
		return err
	}
	// A - before ] is a literal, and so is one behind a range, which is the next item's business.
	if !strings.HasPrefix(t.rest, "-") || strings.HasPrefix(t.rest, "-]") || strings.HasPrefix(t.rest, "-[") || strings.HasPrefix(t.rest, "-&&") {
		items.WriteString(quoteRune(low))
		return nil
	}
	t.rest = t.rest[1:]
	if t.rest == "" {
		return errPatternEnd
	}
	var after strings.Builder
	high, single, err := t.classRune(&after)
	switch {
	case err != nil:
		return err
	case !single: // [a-\d]: the - is a literal
		items.WriteString(quoteRune(low) + `\-` + after.String())
	case high < low:
		return fmt.Errorf("range %q-%q is empty", low, high)
	default:
		items.WriteString(quoteRune(low) + "-" + quoteRune(high))
	}
	return nil
}

// classRune reads one character of a class (single), or writes an escape that stands for many.
func (t *translator) classRune(items *strings.Builder) (r rune, single bool, err error) {
	if t.rest[0] != '\\' {
		return t.rune(), true, nil
	}
	if len(t.rest) > 1 && strings.IndexByte("dDsSwWhHpPb", t.rest[1]) >= 0 {
		e, err := t.escape(true)
		items.WriteString(e)
		return 0, false, err
	}
	t.rest = t.rest[1:]
	if t.rest == "" {
		return 0, false, errPatternEnd
	}
	r, err = t.escapedRune()
	return r, true, err
}
