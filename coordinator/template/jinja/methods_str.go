package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// stringMethods are the methods of a str. They are filled in init, because join and format print values.
var stringMethods map[string]stringMethod

func init() {
	stringMethods = map[string]stringMethod{
		"upper":      plain("upper", strings.ToUpper),
		"lower":      plain("lower", strings.ToLower),
		"casefold":   plain("casefold", strings.ToLower),
		"capitalize": plain("capitalize", capitalize),
		"title":      plain("title", func(s string) string { return title(s, func(r rune) bool { return !unicode.IsLetter(r) }) }),
		"swapcase": plain("swapcase", func(s string) string {
			return strings.Map(func(r rune) rune {
				if unicode.IsUpper(r) {
					return unicode.ToLower(r)
				}
				return unicode.ToUpper(r)
			}, s)
		}),
		"strip":        stripMethod("strip", true, true),
		"lstrip":       stripMethod("lstrip", true, false),
		"rstrip":       stripMethod("rstrip", false, true),
		"startswith":   affixMethod("startswith", strings.HasPrefix),
		"endswith":     affixMethod("endswith", strings.HasSuffix),
		"removeprefix": cutMethod("removeprefix", strings.TrimPrefix),
		"removesuffix": cutMethod("removesuffix", strings.TrimSuffix),
		"split":        splitMethod("split", false),
		"rsplit":       splitMethod("rsplit", true),
		"partition":    partitionMethod("partition", strings.Index, false),
		"rpartition":   partitionMethod("rpartition", strings.LastIndex, true),
		"find":         findMethod("find", strings.Index, false),
		"rfind":        findMethod("rfind", strings.LastIndex, false),
		"index":        findMethod("index", strings.Index, true),
		"rindex":       findMethod("rindex", strings.LastIndex, true),
		"isspace":      check("isspace", func(r rune) bool { return isSpace(r) }),
		"isalpha":      check("isalpha", unicode.IsLetter),
		"isalnum":      check("isalnum", func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isdigit":      check("isdigit", unicode.IsDigit),
		"isdecimal":    check("isdecimal", unicode.IsDigit),
		"isnumeric":    check("isnumeric", unicode.IsNumber),
		"isascii":      func(_ *frame, s string, a arguments) (Value, error) { return isASCII(s), nil },
		"islower":      func(_ *frame, s string, a arguments) (Value, error) { return isCased(s, false), nil },
		"isupper":      func(_ *frame, s string, a arguments) (Value, error) { return isCased(s, true), nil },
		"center":       justifyMethod("center", func(n int) int { return n / 2 }),
		"ljust":        justifyMethod("ljust", func(int) int { return 0 }),
		"rjust":        justifyMethod("rjust", func(n int) int { return n }),
		"zfill":        zfill,
		"join":         joinMethod,
		"replace":      replaceMethod,
		"count":        countMethod,
		"splitlines":   splitLinesMethod,
		"format":       func(f *frame, s string, a arguments) (Value, error) { return f.format(s, a) },
	}
}

func plain(name string, change func(string) string) stringMethod {
	return func(f *frame, s string, a arguments) (Value, error) {
		if _, err := a.bind(name, 0); err != nil {
			return nil, err
		}
		return change(s), f.produce(len(s))
	}
}

func check(name string, in func(rune) bool) stringMethod {
	return func(f *frame, s string, a arguments) (Value, error) {
		if _, err := a.bind(name, 0); err != nil {
			return nil, err
		}
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !in(r) }) < 0, f.produce(len(s))
	}
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

func stripMethod(name string, left, right bool) stringMethod {
	return func(f *frame, s string, a arguments) (Value, error) {
		b, err := a.bind(name, 0, "chars")
		if err != nil {
			return nil, err
		}
		in := isSpace
		if _, ok := b.given(0); ok {
			chars, err := b.str(0, "")
			if err != nil {
				return nil, err
			}
			in = func(r rune) bool { return strings.ContainsRune(chars, r) }
		}
		n := len(s)
		if left {
			s = strings.TrimLeftFunc(s, in)
		}
		if right {
			s = strings.TrimRightFunc(s, in)
		}
		return s, f.produce(n - len(s))
	}
}

// affixMethod is startswith and endswith: one string, or a tuple of which one must fit; with the bounds of a slice.
func affixMethod(name string, fits func(s, affix string) bool) stringMethod {
	return func(f *frame, s string, a arguments) (Value, error) {
		b, err := a.bind(name, 1, "affix", "start", "end")
		if err != nil {
			return nil, err
		}
		if s, _, err = substring(f, s, b, 1); err != nil {
			return nil, err
		}
		affixes := []Value{b[0]}
		if l, ok := b[0].(*List); ok && l.Tuple {
			affixes = l.Items
		}
		for _, x := range affixes {
			affix, ok := x.(string)
			if !ok {
				return nil, fmt.Errorf("%s needs a str or a tuple of str, not %s", name, typeName(x))
			}
			if fits(s, affix) {
				return true, nil
			}
		}
		return false, nil
	}
}

// substring is s[start:end] of the arguments at and at+1; before is the number of characters in front of it.
func substring(f *frame, s string, b bound, at int) (part string, before int, err error) {
	if _, ok := b.given(at); !ok {
		if _, ok := b.given(at + 1); !ok {
			return s, 0, nil
		}
	}
	if err := f.produce(4 * len(s)); err != nil {
		return "", 0, err
	}
	runes := []rune(s)
	n := int64(len(runes))
	start, err := b.int(at, 0)
	if err != nil {
		return "", 0, err
	}
	end, err := b.int(at+1, n)
	if err != nil {
		return "", 0, err
	}
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end += n
	}
	end = min(end, n)
	if start > end {
		return "", int(min(start, n)), nil
	}
	return string(runes[start:end]), int(start), nil
}

func cutMethod(name string, cut func(s, affix string) string) stringMethod {
	return func(_ *frame, s string, a arguments) (Value, error) {
		b, err := a.bind(name, 1, "affix")
		if err != nil {
			return nil, err
		}
		affix, err := b.str(0, "")
		return cut(s, affix), err
	}
}

func splitMethod(name string, fromRight bool) stringMethod {
	return func(f *frame, s string, a arguments) (Value, error) {
		b, err := a.bind(name, 0, "sep", "maxsplit")
		if err != nil {
			return nil, err
		}
		limit, err := b.int(1, -1)
		if err != nil {
			return nil, err
		}
		var parts []string
		if _, ok := b.given(0); !ok {
			parts = splitSpace(s, limit, fromRight)
		} else {
			sep, err := b.str(0, "")
			if err != nil {
				return nil, err
			}
			if sep == "" {
				return nil, fmt.Errorf("%s: empty separator", name)
			}
			parts = splitBy(s, sep, limit, fromRight)
		}
		return stringList(f, parts, len(s))
	}
}

func splitBy(s, sep string, limit int64, fromRight bool) []string {
	parts := strings.Split(s, sep)
	if limit < 0 || int64(len(parts)) <= limit+1 {
		return parts
	}
	n := int(limit)
	if !fromRight {
		return append(parts[:n:n], strings.Join(parts[n:], sep))
	}
	head := len(parts) - n
	return append([]string{strings.Join(parts[:head], sep)}, parts[head:]...)
}

func stringList(f *frame, parts []string, bytes int) (Value, error) {
	if err := f.produce(bytes + 32*len(parts)); err != nil {
		return nil, err
	}
	l := &List{Items: make([]Value, len(parts))}
	for i, p := range parts {
		l.Items[i] = p
	}
	return l, nil
}

func justifyMethod(name string, left func(n int) int) stringMethod {
	return func(f *frame, s string, a arguments) (Value, error) {
		b, err := a.bind(name, 1, "width", "fillchar")
		if err != nil {
			return nil, err
		}
		fill, err := b.str(1, " ")
		if err != nil {
			return nil, err
		}
		width, err := b.int(0, 0)
		if err != nil {
			return nil, err
		}
		return f.justify(s, width, fill, left)
	}
}

func (f *frame) justify(s string, width int64, fill string, left func(n int) int) (Value, error) {
	if utf8.RuneCountInString(fill) != 1 {
		return nil, fmt.Errorf("the fill character must be one character")
	}
	n := width - int64(utf8.RuneCountInString(s))
	if n <= 0 {
		return s, nil
	}
	padding, err := f.repeat(fill, n)
	if err != nil {
		return nil, err
	}
	p := padding.(string)
	cut := left(int(n)) * len(fill)
	return p[:cut] + s + p[cut:], f.produce(len(s))
}

func zfill(f *frame, s string, a arguments) (Value, error) {
	b, err := a.bind("zfill", 1, "width")
	if err != nil {
		return nil, err
	}
	width, err := b.int(0, 0)
	if err != nil {
		return nil, err
	}
	sign := ""
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		sign, s = s[:1], s[1:]
		width--
	}
	v, err := f.justify(s, width, "0", func(n int) int { return n })
	if err != nil {
		return nil, err
	}
	return sign + v.(string), nil
}

func joinMethod(f *frame, s string, a arguments) (Value, error) {
	b, err := a.bind("join", 1, "iterable")
	if err != nil {
		return nil, err
	}
	items, err := iterate(b[0])
	if err != nil {
		return nil, err
	}
	for i, x := range items {
		if _, ok := x.(string); !ok {
			return nil, fmt.Errorf("join: item %d is %s, not str", i, typeName(x))
		}
	}
	return f.join(items, s)
}

// join prints the items with a separator between them.
func (f *frame) join(items []Value, separator string) (Value, error) {
	var b strings.Builder
	for i, x := range items {
		if i > 0 {
			b.WriteString(separator)
		}
		s, err := f.str(x)
		if err != nil {
			return nil, err
		}
		if err := f.produce(len(s) + len(separator)); err != nil {
			return nil, err
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func replaceMethod(f *frame, s string, a arguments) (Value, error) {
	b, err := a.bind("replace", 2, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	old, err := b.str(0, "")
	if err != nil {
		return nil, err
	}
	replacement, err := b.str(1, "")
	if err != nil {
		return nil, err
	}
	count, err := b.int(2, -1)
	if err != nil {
		return nil, err
	}
	return f.replace(s, old, replacement, count)
}

func (f *frame) replace(s, old, replacement string, count int64) (Value, error) {
	found := int64(strings.Count(s, old))
	if count < 0 || count > found {
		count = found
	}
	// The result can be far longer than its parts.
	size := float64(len(s)) + float64(count)*float64(len(replacement))
	if size > maxString {
		return nil, fmt.Errorf("%w: a string is longer than %d bytes", ErrLimit, maxString)
	}
	if err := f.produce(int(size)); err != nil {
		return nil, err
	}
	return strings.Replace(s, old, replacement, int(count)), nil
}

func countMethod(f *frame, s string, a arguments) (Value, error) {
	b, err := a.bind("count", 1, "sub", "start", "end")
	if err != nil {
		return nil, err
	}
	sub, err := b.str(0, "")
	if err != nil {
		return nil, err
	}
	if s, _, err = substring(f, s, b, 1); err != nil {
		return nil, err
	}
	return int64(strings.Count(s, sub)), f.produce(len(s))
}

func splitLinesMethod(f *frame, s string, a arguments) (Value, error) {
	b, err := a.bind("splitlines", 0, "keepends")
	if err != nil {
		return nil, err
	}
	return stringList(f, splitLines(s, b.bool(0, false)), len(s))
}
