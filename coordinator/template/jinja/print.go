package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str(v), which is what {{ v }} writes. maxBytes bounds the result.
func str(v Value, maxBytes int) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case Undefined:
		return "", nil
	}
	p := printer{left: maxBytes}
	if err := p.repr(v, 0); err != nil {
		return "", err
	}
	return p.out.String(), nil
}

// printer writes Python's repr.
type printer struct {
	out  strings.Builder
	left int
}

func (p *printer) write(s string) error {
	if p.left -= len(s); p.left < 0 {
		return fmt.Errorf("%w: a printed value is too long", ErrLimit)
	}
	p.out.WriteString(s)
	return nil
}

func (p *printer) repr(v Value, depth int) error {
	if depth > maxValueDepth {
		return fmt.Errorf("%w: a printed value is nested deeper than %d", ErrLimit, maxValueDepth)
	}
	switch v := v.(type) {
	case nil:
		return p.write("None")
	case Undefined:
		return p.write("Undefined")
	case bool:
		if v {
			return p.write("True")
		}
		return p.write("False")
	case int64:
		return p.write(strconv.FormatInt(v, 10))
	case float64:
		return p.write(floatRepr(v))
	case string:
		return p.write(stringRepr(v))
	case *List:
		open, end := "[", "]"
		if v.Tuple {
			open, end = "(", ")"
			if len(v.Items) == 1 {
				end = ",)"
			}
		}
		return p.sequence(open, end, len(v.Items), func(i int) error { return p.repr(v.Items[i], depth+1) })
	case *Dict:
		return p.sequence("{", "}", v.Len(), func(i int) error { return p.pair(v.keys[i], v.values[i], depth) })
	case *namespace:
		if err := p.write("<Namespace "); err != nil {
			return err
		}
		if err := p.repr(v.attributes, depth+1); err != nil {
			return err
		}
		return p.write(">")
	case *function:
		return p.write("<function " + v.name + ">")
	case *loop:
		return p.write(fmt.Sprintf("<LoopContext %d/%d>", v.at+1, len(v.items)))
	}
	return fmt.Errorf("%T cannot be printed", v)
}

func (p *printer) pair(key, value Value, depth int) error {
	if err := p.repr(key, depth+1); err != nil {
		return err
	}
	if err := p.write(": "); err != nil {
		return err
	}
	return p.repr(value, depth+1)
}

func (p *printer) sequence(open, end string, n int, item func(int) error) error {
	if err := p.write(open); err != nil {
		return err
	}
	for i := range n {
		if i > 0 {
			if err := p.write(", "); err != nil {
				return err
			}
		}
		if err := item(i); err != nil {
			return err
		}
	}
	return p.write(end)
}

// floatRepr is Python's repr of a float: the shortest digits that give it back, with an exponent below 1e-4 and from 1e16.
func floatRepr(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case f != f:
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64) // both write at least two digits of exponent
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// stringRepr is Python's repr of a str: single quotes unless only they occur in it.
func stringRepr(s string) string {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7F:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x7F || unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xFF:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xFFFF:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}
