package jinja

import (
	"fmt"
)

// attribute is object.name: Python's attribute first, then the item.
func attribute(object Value, name string) (Value, error) {
	if v, ok := pythonAttribute(object, name); ok {
		return v, nil
	}
	switch o := object.(type) {
	case Undefined:
		return nil, o.error()
	case *Dict:
		if v, ok := o.Get(name); ok {
			return v, nil
		}
	}
	return missing(object, name), nil
}

func missing(object Value, name string) Undefined {
	return Undefined{Name: fmt.Sprintf("attribute %q of %s", name, typeName(object))}
}

// pythonAttribute finds what is an attribute of the Python object: methods, and fields of namespaces and loops.
func pythonAttribute(object Value, name string) (Value, bool) {
	switch o := object.(type) {
	case string:
		if m, ok := stringMethods[name]; ok {
			return &function{name: name, call: func(f *frame, a arguments) (Value, error) { return m(f, o, a) }}, true
		}
	case *Dict:
		if m, ok := dictMethods[name]; ok {
			return &function{name: name, call: func(f *frame, a arguments) (Value, error) { return m(f, o, a) }}, true
		}
	case *List:
		if m, ok := listMethods[name]; ok {
			return &function{name: name, call: func(f *frame, a arguments) (Value, error) { return m(f, o, a) }}, true
		}
	case *namespace:
		return o.attributes.Get(name)
	case *loop:
		return o.attribute(name)
	case *function:
		if name == "name" {
			return o.name, true
		}
	}
	return nil, false
}

// item is object[key]: the item first, then Python's attribute.
func item(object, key Value) (Value, error) {
	switch o := object.(type) {
	case Undefined:
		return nil, o.error()
	case *Dict:
		if v, ok := o.Get(key); ok {
			return v, nil
		}
	case *List:
		if i, ok := key.(int64); ok {
			if i, ok := position(i, len(o.Items)); ok {
				return o.Items[i], nil
			}
			return Undefined{Name: fmt.Sprintf("item %d of %s with %d items", i, typeName(object), len(o.Items))}, nil
		}
	case string:
		if i, ok := key.(int64); ok {
			runes := []rune(o)
			if i, ok := position(i, len(runes)); ok {
				return string(runes[i]), nil
			}
			return Undefined{Name: fmt.Sprintf("item %d of str", i)}, nil
		}
	}
	if name, ok := key.(string); ok {
		if v, ok := pythonAttribute(object, name); ok {
			return v, nil
		}
		return missing(object, name), nil
	}
	if u, ok := key.(Undefined); ok {
		return nil, u.error()
	}
	return Undefined{Name: fmt.Sprintf("item of %s", typeName(object))}, nil
}

// position counts negative indexes from the end.
func position(i int64, n int) (int, bool) {
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}

func (e *sliceExpr) of(f *frame, object Value) (Value, error) {
	var bounds [3]*int64
	for i, b := range []expr{e.start, e.stop, e.step} {
		if b == nil {
			continue
		}
		v, err := b.eval(f)
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case nil:
		case int64:
			bounds[i] = &v
		default:
			return nil, fmt.Errorf("slice indices must be integers or None, not %s", typeName(v))
		}
	}
	switch o := object.(type) {
	case string:
		if err := f.produce(len(o)); err != nil {
			return nil, err
		}
		runes := []rune(o)
		indexes, err := sliceIndexes(bounds, len(runes))
		if err != nil {
			return nil, err
		}
		out := make([]rune, len(indexes))
		for i, j := range indexes {
			out[i] = runes[j]
		}
		return string(out), nil
	case *List:
		if err := f.produce(16 * len(o.Items)); err != nil {
			return nil, err
		}
		indexes, err := sliceIndexes(bounds, len(o.Items))
		if err != nil {
			return nil, err
		}
		out := &List{Items: make([]Value, len(indexes)), Tuple: o.Tuple}
		for i, j := range indexes {
			out.Items[i] = o.Items[j]
		}
		return out, nil
	case Undefined:
		return nil, o.error()
	}
	return Undefined{Name: fmt.Sprintf("slice of %s", typeName(object))}, nil
}

// sliceIndexes gives the indexes of start:stop:step in a sequence of n items, as Python does.
func sliceIndexes(bounds [3]*int64, n int) ([]int, error) {
	step := int64(1)
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		return nil, fmt.Errorf("slice step cannot be zero")
	}
	size := int64(n)
	low, high := int64(0), size // the values to which bounds are clamped
	if step < 0 {
		low, high = -1, size-1
	}
	clamp := func(b *int64, otherwise int64) int64 {
		if b == nil {
			return otherwise
		}
		i := *b
		if i < 0 {
			i = max(i, -size-1) + size
		}
		return min(max(i, low), high)
	}
	start, stop := clamp(bounds[0], low), clamp(bounds[1], high)
	if step < 0 {
		start, stop = clamp(bounds[0], high), clamp(bounds[1], low)
	}
	step = min(max(step, -size-1), size+1) // not to overflow
	var out []int
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		out = append(out, int(i))
	}
	return out, nil
}

// loop is the variable of that name inside a for loop.
type loop struct {
	items   []Value
	at      int
	depth   int
	again   func(f *frame, over Value) (Value, error) // of recursive loops
	changed []Value                                   // the last arguments of changed
}

func (l *loop) attribute(name string) (Value, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.at + 1), true
	case "index0":
		return int64(l.at), true
	case "revindex":
		return int64(n - l.at), true
	case "revindex0":
		return int64(n - l.at - 1), true
	case "first":
		return l.at == 0, true
	case "last":
		return l.at == n-1, true
	case "length":
		return int64(n), true
	case "depth":
		return int64(l.depth + 1), true
	case "depth0":
		return int64(l.depth), true
	case "previtem":
		if l.at == 0 {
			return Undefined{Name: "the item before the first"}, true
		}
		return l.items[l.at-1], true
	case "nextitem":
		if l.at == n-1 {
			return Undefined{Name: "the item after the last"}, true
		}
		return l.items[l.at+1], true
	case "cycle":
		return &function{name: name, call: func(_ *frame, a arguments) (Value, error) {
			if len(a.positional) == 0 {
				return nil, fmt.Errorf("no items for cycling given")
			}
			return a.positional[l.at%len(a.positional)], nil
		}}, true
	case "changed":
		return &function{name: name, call: func(f *frame, a arguments) (Value, error) {
			same, err := f.equal(&List{Items: l.changed}, &List{Items: a.positional})
			if err != nil {
				return nil, err
			}
			same = same && l.changed != nil
			l.changed = append([]Value{}, a.positional...)
			return !same, nil
		}}, true
	}
	return nil, false
}
