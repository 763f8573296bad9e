package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// FromJSON reads one JSON value; objects keep the order of their keys.
func FromJSON(data []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := readJSON(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}

func readJSON(d *json.Decoder, depth int) (Value, error) {
	if depth > maxValueDepth {
		return nil, fmt.Errorf("%w: JSON is nested deeper than %d", ErrLimit, maxValueDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		if i, err := t.Int64(); err == nil {
			return i, nil
		}
		f, err := t.Float64()
		return f, err
	case json.Delim:
		if t == '[' {
			l := NewList()
			for d.More() {
				v, err := readJSON(d, depth+1)
				if err != nil {
					return nil, err
				}
				l.Items = append(l.Items, v)
			}
			_, err := d.Token()
			return l, err
		}
		dict := NewDict()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := readJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			if err := dict.Set(key, v); err != nil {
				return nil, err
			}
		}
		_, err := d.Token()
		return dict, err
	}
	return t, nil // nil, bool, string
}

// jsonWriter writes as Python's json.dumps does.
type jsonWriter struct {
	printer
	f             *frame
	ensureASCII   bool
	indent        string // "" with newlines == false: one line
	newlines      bool
	itemSeparator string
	keySeparator  string
	sortKeys      bool
}

func (w *jsonWriter) value(v Value, depth int) error {
	if depth > maxValueDepth {
		return fmt.Errorf("%w: a value is nested deeper than %d", ErrLimit, maxValueDepth)
	}
	switch v := v.(type) {
	case nil:
		return w.write("null")
	case bool:
		return w.write(strconv.FormatBool(v))
	case int64:
		return w.write(strconv.FormatInt(v, 10))
	case float64:
		return w.write(jsonFloat(v))
	case string:
		return w.write(w.quote(v))
	case *List:
		return w.block("[", "]", len(v.Items), depth, func(i int) error { return w.value(v.Items[i], depth+1) })
	case *Dict:
		order := make([]int, v.Len())
		for i := range order {
			order[i] = i
		}
		if w.sortKeys {
			var failed error
			slices.SortStableFunc(order, func(i, j int) int {
				c, err := w.f.compare(v.keys[i], v.keys[j])
				if err != nil {
					failed = err
				}
				return c
			})
			if failed != nil {
				return failed
			}
		}
		return w.block("{", "}", v.Len(), depth, func(i int) error {
			if err := w.key(v.keys[order[i]]); err != nil {
				return err
			}
			if err := w.write(w.keySeparator); err != nil {
				return err
			}
			return w.value(v.values[order[i]], depth+1)
		})
	case Undefined:
		return v.error()
	}
	return fmt.Errorf("%s is not JSON serializable", typeName(v))
}

func (w *jsonWriter) key(k Value) error {
	switch k := k.(type) {
	case string:
		return w.write(w.quote(k))
	case nil:
		return w.write(`"null"`)
	case bool:
		return w.write(`"` + strconv.FormatBool(k) + `"`)
	case int64:
		return w.write(`"` + strconv.FormatInt(k, 10) + `"`)
	case float64:
		return w.write(`"` + jsonFloat(k) + `"`)
	}
	return fmt.Errorf("keys must be str, int, float, bool or None, not %s", typeName(k))
}

func jsonFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f != f:
		return "NaN"
	}
	return floatRepr(f)
}

func (w *jsonWriter) block(open, end string, n, depth int, item func(int) error) error {
	if err := w.write(open); err != nil || n == 0 {
		if err == nil {
			err = w.write(end)
		}
		return err
	}
	for i := range n {
		if i > 0 {
			if err := w.write(w.itemSeparator); err != nil {
				return err
			}
		}
		if err := w.newline(depth + 1); err != nil {
			return err
		}
		if err := item(i); err != nil {
			return err
		}
	}
	if err := w.newline(depth); err != nil {
		return err
	}
	return w.write(end)
}

func (w *jsonWriter) newline(depth int) error {
	if !w.newlines {
		return nil
	}
	return w.write("\n" + strings.Repeat(w.indent, depth))
}

func (w *jsonWriter) quote(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		case r < utf8.RuneSelf || !w.ensureASCII:
			b.WriteRune(r)
		case r > 0xFFFF:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
