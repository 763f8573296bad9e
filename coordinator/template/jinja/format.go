package jinja

import (
	"fmt"
	"strconv"
	"strings"
)

// printf is Python's text % values for the conversions s, r, d, i, f, x and %%, with flags, width and precision.
func (f *frame) printf(format string, v Value) (Value, error) {
	values := []Value{v}
	if l, ok := v.(*List); ok && l.Tuple {
		values = l.Items
	}
	mapping, _ := v.(*Dict)
	used := 0
	var b strings.Builder
	for format != "" {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			b.WriteString(format)
			break
		}
		b.WriteString(format[:i])
		format = format[i+1:]
		var value Value
		named := false
		if rest, ok := strings.CutPrefix(format, "("); ok && mapping != nil {
			name, after, ok := strings.Cut(rest, ")")
			if !ok {
				return nil, fmt.Errorf("incomplete format key")
			}
			if value, ok = mapping.Get(name); !ok {
				return nil, fmt.Errorf("format: no value %q", name)
			}
			named, format = true, after
		}
		n := len(format) - len(strings.TrimLeft(format, "-+ #0123456789."))
		flags := format[:n]
		if n == len(format) {
			return nil, fmt.Errorf("incomplete format")
		}
		conversion := format[n]
		format = format[n+1:]
		if conversion == '%' {
			b.WriteByte('%')
			continue
		}
		if !named {
			if used == len(values) {
				return nil, fmt.Errorf("not enough arguments for format string")
			}
			value = values[used]
			used++
		}
		s, err := f.convert(flags, conversion, value)
		if err != nil {
			return nil, err
		}
		b.WriteString(s)
	}
	if used < len(values) && mapping == nil {
		return nil, fmt.Errorf("not all arguments converted during string formatting")
	}
	return b.String(), f.produce(b.Len())
}

// maxFormatWidth bounds width and precision of a conversion.
const maxFormatWidth = 1000

func (f *frame) convert(flags string, conversion byte, v Value) (string, error) {
	for _, part := range strings.FieldsFunc(flags, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(part); err != nil || n > maxFormatWidth {
			return "", fmt.Errorf("%w: format width is more than %d", ErrLimit, maxFormatWidth)
		}
	}
	if u, ok := v.(Undefined); ok && conversion != 's' && conversion != 'r' {
		return "", u.error()
	}
	switch conversion {
	case 's', 'r':
		s, err := f.str(v)
		if conversion == 'r' {
			p := printer{left: int(min(f.r.work, maxString))}
			err = p.repr(v, 0)
			s = p.out.String()
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%"+flags+"s", s), f.produce(len(s))
	case 'd', 'i', 'x', 'X', 'o':
		n, x, isInt, ok := number(v)
		if !ok || !isInt && (conversion != 'd' && conversion != 'i') {
			return "", fmt.Errorf("%%%c format: a number is required, not %s", conversion, typeName(v))
		}
		if !isInt {
			n = int64(x)
		}
		if conversion == 'i' {
			conversion = 'd'
		}
		return fmt.Sprintf("%"+flags+string(conversion), n), nil
	case 'f', 'F', 'e', 'E', 'g', 'G':
		_, x, _, ok := number(v)
		if !ok {
			return "", fmt.Errorf("%%%c format: a number is required, not %s", conversion, typeName(v))
		}
		if (conversion == 'g' || conversion == 'G') && !strings.Contains(flags, ".") {
			flags += ".6"
		}
		return fmt.Sprintf("%"+flags+string(conversion), x), nil
	}
	return "", fmt.Errorf("unsupported format character %q", conversion)
}

// format is Python's str.format for fields without attributes and format specifications: {}, {0}, {name}.
func (f *frame) format(s string, a arguments) (Value, error) {
	var b strings.Builder
	next := 0
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:i])
		if i+1 < len(s) && s[i+1] == s[i] {
			b.WriteByte(s[i])
			s = s[i+2:]
			continue
		}
		name, rest, ok := strings.Cut(s[i+1:], "}")
		if s[i] == '}' || !ok {
			return nil, fmt.Errorf("format: single %q in the format string", s[i])
		}
		s = rest
		v, err := a.field(name, &next)
		if err != nil {
			return nil, err
		}
		text, err := f.str(v)
		if err != nil {
			return nil, err
		}
		if err := f.produce(len(text)); err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	return b.String(), f.produce(len(s))
}

func (a arguments) field(name string, next *int) (Value, error) {
	index := *next
	switch n, err := strconv.Atoi(name); {
	case name == "":
		*next++
	case err == nil && n >= 0:
		index = n
	default:
		for i, x := range a.names {
			if x == name {
				return a.named[i], nil
			}
		}
		return nil, fmt.Errorf("format: field {%s} is not supported or not given", name)
	}
	if index >= len(a.positional) {
		return nil, fmt.Errorf("format: no argument %d", index)
	}
	return a.positional[index], nil
}
