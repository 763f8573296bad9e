package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

type filterFunc func(f *frame, v Value, a arguments) (Value, error)

// filters are those of Jinja that have a use in chat templates, and tojson as transformers defines it. They are filled in init,
// because map runs filters by name.
var filters map[string]filterFunc

func init() {
	filters = map[string]filterFunc{
		"default": defaultFilter, "d": defaultFilter,
		"string":     func(f *frame, v Value, _ arguments) (Value, error) { return f.str(v) },
		"safe":       func(f *frame, v Value, _ arguments) (Value, error) { return f.str(v) },
		"upper":      textFilter("upper", strings.ToUpper),
		"lower":      textFilter("lower", strings.ToLower),
		"capitalize": textFilter("capitalize", capitalize),
		"title": textFilter("title", func(s string) string {
			return title(s, func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) })
		}),
		"escape": textFilter("escape", escapeHTML), "e": textFilter("e", escapeHTML), "forceescape": textFilter("forceescape", escapeHTML),
		"trim":      trimFilter,
		"length":    lengthFilter,
		"count":     lengthFilter,
		"replace":   replaceFilter,
		"indent":    indentFilter,
		"join":      joinFilter,
		"center":    centerFilter,
		"format":    formatFilter,
		"wordcount": func(f *frame, v Value, _ arguments) (Value, error) { return wordCount(f, v) },
		"int":       intFilter,
		"float":     floatFilter,
		"abs":       absFilter,
		"round":     roundFilter,
		"tojson":    toJSON,
		"attr":      attrFilter,

		"list": listFilter, "first": firstFilter, "last": lastFilter, "reverse": reverseFilter, "sort": sortFilter, "unique": uniqueFilter,
		"min": extremeFilter("min", -1), "max": extremeFilter("max", 1), "sum": sumFilter, "items": itemsFilter, "dictsort": dictSortFilter,
		"map": mapFilter, "select": selectFilter("select", true, false), "reject": selectFilter("reject", false, false),
		"selectattr": selectFilter("selectattr", true, true), "rejectattr": selectFilter("rejectattr", false, true), "groupby": groupByFilter,
		"batch": batchFilter,
	}
}

func textFilter(name string, change func(string) string) filterFunc {
	return func(f *frame, v Value, a arguments) (Value, error) {
		if _, err := a.bind(name, 0); err != nil {
			return nil, err
		}
		s, err := f.str(v)
		if err != nil {
			return nil, err
		}
		return change(s), f.produce(len(s))
	}
}

var escapeHTML = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;").Replace

func defaultFilter(_ *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("default", 0, "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	if _, undefined := v.(Undefined); undefined || b.bool(1, false) && !truth(v) {
		if b.has(0) {
			return b[0], nil
		}
		return "", nil
	}
	return v, nil
}

func trimFilter(f *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("trim", 0, "chars")
	if err != nil {
		return nil, err
	}
	s, err := f.str(v)
	if err != nil {
		return nil, err
	}
	return stringMethods["strip"](f, s, arguments{positional: charsOf(b)})
}

func charsOf(b bound) []Value {
	if v, ok := b.given(0); ok {
		return []Value{v}
	}
	return nil
}

func lengthFilter(f *frame, v Value, _ arguments) (Value, error) {
	n, err := length(v)
	if s, ok := v.(string); ok && err == nil {
		err = f.produce(len(s) / 8)
	}
	return int64(n), err
}

func replaceFilter(f *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("replace", 2, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	var texts [3]string
	for i, x := range []Value{v, b[0], b[1]} {
		if texts[i], err = f.str(x); err != nil {
			return nil, err
		}
	}
	count, err := b.int(2, -1)
	if err != nil {
		return nil, err
	}
	return f.replace(texts[0], texts[1], texts[2], count)
}

func indentFilter(f *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("indent", 0, "width", "first", "blank")
	if err != nil {
		return nil, err
	}
	s, err := f.str(v)
	if err != nil {
		return nil, err
	}
	indent, ok := b[0].(string)
	if !ok {
		width, err := b.int(0, 4)
		if err != nil {
			return nil, err
		}
		spaces, err := f.repeat(" ", width)
		if err != nil {
			return nil, err
		}
		indent = spaces.(string)
	}
	lines := splitLines(s+"\n", false)
	if err := f.produce(len(s) + len(lines)); err != nil {
		return nil, err
	}
	if err := f.produce(min(len(indent)*len(lines), 1<<40)); err != nil {
		return nil, err
	}
	for i := range lines {
		if i == 0 && b.bool(1, false) || i > 0 && (lines[i] != "" || b.bool(2, false)) {
			lines[i] = indent + lines[i]
		}
	}
	return strings.Join(lines, "\n"), nil
}

func centerFilter(f *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("center", 0, "width")
	if err != nil {
		return nil, err
	}
	s, err := f.str(v)
	if err != nil {
		return nil, err
	}
	width, err := b.int(0, 80)
	if err != nil {
		return nil, err
	}
	return f.justify(s, width, " ", func(n int) int { return n / 2 })
}

func formatFilter(f *frame, v Value, a arguments) (Value, error) {
	s, err := f.str(v)
	if err != nil {
		return nil, err
	}
	if len(a.names) > 0 {
		d, err := newDict(arguments{names: a.names, named: a.named})
		if err != nil {
			return nil, err
		}
		return f.printf(s, d)
	}
	return f.printf(s, &List{Items: a.positional, Tuple: true})
}

func wordCount(f *frame, v Value) (Value, error) {
	s, err := f.str(v)
	if err != nil {
		return nil, err
	}
	words := strings.FieldsFunc(s, func(r rune) bool { return !isWordRune(r) })
	return int64(len(words)), f.produce(len(s))
}

func intFilter(_ *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("int", 0, "default", "base")
	if err != nil {
		return nil, err
	}
	base, err := b.int(1, 10)
	if err != nil || base != 0 && (base < 2 || base > 36) {
		return nil, fmt.Errorf("base must be 0 or between 2 and 36")
	}
	otherwise := Value(int64(0))
	if b.has(0) {
		otherwise = b[0]
	}
	switch v := v.(type) {
	case Undefined:
		return nil, v.error()
	case string:
		s := strings.ReplaceAll(strings.TrimFunc(v, isSpace), "_", "")
		if i, err := strconv.ParseInt(s, int(base), 64); err == nil {
			return i, nil
		}
		if x, err := strconv.ParseFloat(s, 64); err == nil && x > -1<<63 && x < 1<<63 {
			return int64(x), nil
		}
		return otherwise, nil
	}
	i, x, isInt, ok := number(v)
	switch {
	case isInt:
		return i, nil
	case ok && x > -1<<63 && x < 1<<63:
		return int64(x), nil
	}
	return otherwise, nil
}

func floatFilter(_ *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("float", 0, "default")
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case Undefined:
		return nil, v.error()
	case string:
		if x, err := strconv.ParseFloat(strings.TrimFunc(v, isSpace), 64); err == nil {
			return x, nil
		}
	default:
		if _, x, _, ok := number(v); ok {
			return x, nil
		}
	}
	if b.has(0) {
		return b[0], nil
	}
	return float64(0), nil
}

func absFilter(_ *frame, v Value, a arguments) (Value, error) {
	if _, err := a.bind("abs", 0); err != nil {
		return nil, err
	}
	i, x, isInt, ok := number(v)
	switch {
	case isInt && i < 0:
		return integers("-", 0, i)
	case isInt:
		return i, nil
	case ok && x < 0:
		return -x, nil
	case ok:
		return x, nil
	}
	return nil, fmt.Errorf("needs a number, not %s", typeName(v))
}

func roundFilter(_ *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("round", 0, "precision", "method")
	if err != nil {
		return nil, err
	}
	precision, err := b.int(0, 0)
	if err != nil {
		return nil, err
	}
	method, err := b.str(1, "common")
	if err != nil {
		return nil, err
	}
	i, x, isInt, ok := number(v)
	switch {
	case !ok:
		return nil, fmt.Errorf("needs a number, not %s", typeName(v))
	case method != "common" || precision < 0 || precision > 100:
		return nil, fmt.Errorf("only the method 'common' with a precision between 0 and 100 is supported")
	case isInt:
		return i, nil
	}
	return strconv.ParseFloat(strconv.FormatFloat(x, 'f', int(precision), 64), 64)
}

// toJSON is transformers' tojson: like json.dumps, and characters outside of ASCII stay as they are.
func toJSON(f *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	w := jsonWriter{printer: printer{left: int(min(f.r.work, maxString))}, f: f, ensureASCII: b.bool(0, false), itemSeparator: ", ", keySeparator: ": ",
		sortKeys: b.bool(3, false)}
	if indent, ok := b.given(1); ok {
		w.newlines, w.itemSeparator = true, ","
		if s, ok := indent.(string); ok {
			w.indent = s
		} else if n, err := b.int(1, 0); err != nil {
			return nil, err
		} else if n > maxFormatWidth {
			return nil, fmt.Errorf("%w: indent is more than %d", ErrLimit, maxFormatWidth)
		} else {
			w.indent = strings.Repeat(" ", int(max(n, 0)))
		}
	}
	if v, ok := b.given(2); ok {
		l, ok := v.(*List)
		if !ok || len(l.Items) != 2 {
			return nil, fmt.Errorf("separators must be a pair")
		}
		items, ok1 := l.Items[0].(string)
		keys, ok2 := l.Items[1].(string)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("separators must be a pair of str")
		}
		w.itemSeparator, w.keySeparator = items, keys
	}
	if err := w.value(v, 0); err != nil {
		return nil, err
	}
	return w.out.String(), f.produce(w.out.Len())
}

func attrFilter(_ *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("attr", 1, "name")
	if err != nil {
		return nil, err
	}
	name, err := b.str(0, "")
	if err != nil {
		return nil, err
	}
	if u, ok := v.(Undefined); ok {
		return nil, u.error()
	}
	if v, ok := pythonAttribute(v, name); ok {
		return v, nil
	}
	return missing(v, name), nil
}

func isWordRune(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= utf8.RuneSelf && !isSpace(r)
}
