package jinja

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// sequence gives what a filter goes through, paid for.
func (f *frame) sequence(v Value) ([]Value, error) {
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	return items, f.produce(16 * len(items))
}

func listFilter(f *frame, v Value, a arguments) (Value, error) {
	if _, err := a.bind("list", 0); err != nil {
		return nil, err
	}
	items, err := f.sequence(v)
	return &List{Items: items}, err
}

func firstFilter(f *frame, v Value, _ arguments) (Value, error) {
	items, err := f.sequence(v)
	if err != nil || len(items) > 0 {
		return firstOf(items), err
	}
	return Undefined{Name: "the first item of an empty sequence"}, nil
}

func firstOf(items []Value) Value {
	if len(items) == 0 {
		return nil
	}
	return items[0]
}

func lastFilter(f *frame, v Value, _ arguments) (Value, error) {
	items, err := f.sequence(v)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return Undefined{Name: "the last item of an empty sequence"}, nil
	}
	return items[len(items)-1], nil
}

func reverseFilter(f *frame, v Value, _ arguments) (Value, error) {
	if s, ok := v.(string); ok {
		runes := []rune(s)
		slices.Reverse(runes)
		return string(runes), f.produce(4 * len(s))
	}
	items, err := f.sequence(v)
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	return &List{Items: items}, nil
}

// maybeSequence is sequence for the filters that take any false value, such as None, for an empty one.
func (f *frame) maybeSequence(v Value) ([]Value, error) {
	if !truth(v) {
		return nil, nil
	}
	return f.sequence(v)
}

// attributeOf gives the function that filters with an attribute use: a dotted path of names and numbers, or the item itself.
func attributeOf(v Value, otherwise Value) (func(Value) (Value, error), error) {
	var path []Value
	switch v := v.(type) {
	case nil, absent:
		return func(x Value) (Value, error) { return x, nil }, nil
	case int64:
		path = []Value{v}
	case string:
		for _, p := range strings.Split(v, ".") {
			if i, err := strconv.ParseInt(p, 10, 64); err == nil {
				path = append(path, i)
			} else {
				path = append(path, p)
			}
		}
	default:
		return nil, fmt.Errorf("an attribute must be a str or an int, not %s", typeName(v))
	}
	return func(x Value) (Value, error) {
		for _, p := range path {
			var err error
			if x, err = item(x, p); err != nil {
				return nil, err
			}
			if _, undefined := x.(Undefined); undefined && otherwise != nil {
				x = otherwise
			}
		}
		return x, nil
	}, nil
}

func joinFilter(f *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("join", 0, "d", "attribute")
	if err != nil {
		return nil, err
	}
	separator := ""
	if x, ok := b.given(0); ok {
		if separator, err = f.str(x); err != nil {
			return nil, err
		}
	}
	get, err := attributeOf(b[1], nil)
	if err != nil {
		return nil, err
	}
	items, err := f.mapped(v, get)
	if err != nil {
		return nil, err
	}
	return f.join(items, separator)
}

// mapped gives get of each item.
func (f *frame) mapped(v Value, get func(Value) (Value, error)) ([]Value, error) {
	items, err := f.sequence(v)
	if err != nil {
		return nil, err
	}
	out := make([]Value, len(items))
	for i, x := range items {
		if err := f.step(); err != nil {
			return nil, err
		}
		if out[i], err = get(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sortKey is what sorting compares: strings without their case unless asked.
func sortKey(caseSensitive bool) func(Value) Value {
	return func(v Value) Value {
		if s, ok := v.(string); ok && !caseSensitive {
			return strings.ToLower(s)
		}
		return v
	}
}

// sorted sorts items by their keys, stably.
func (f *frame) sorted(items, keys []Value, reverse bool) ([]Value, error) {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	var failed error
	slices.SortStableFunc(order, func(i, j int) int {
		if failed != nil {
			return 0
		}
		c, err := f.compare(keys[i], keys[j])
		if err != nil {
			failed = err
		}
		if reverse {
			return -c
		}
		return c
	})
	out := make([]Value, len(items))
	for i, j := range order {
		out[i] = items[j]
	}
	return out, failed
}

func sortFilter(f *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("sort", 0, "reverse", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	get, err := attributeOf(b[2], nil)
	if err != nil {
		return nil, err
	}
	items, err := f.sequence(v)
	if err != nil {
		return nil, err
	}
	fold := sortKey(b.bool(1, false))
	keys, err := f.mapped(v, func(x Value) (Value, error) {
		k, err := get(x)
		return fold(k), err
	})
	if err != nil {
		return nil, err
	}
	out, err := f.sorted(items, keys, b.bool(0, false))
	return &List{Items: out}, err
}

func dictSortFilter(f *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("dictsort", 0, "case_sensitive", "by", "reverse")
	if err != nil {
		return nil, err
	}
	d, ok := v.(*Dict)
	if !ok {
		return nil, fmt.Errorf("needs a dict, not %s", typeName(v))
	}
	by, err := b.str(1, "key")
	if err != nil {
		return nil, err
	}
	keys := d.keys
	if by == "value" {
		keys = d.values
	}
	fold := sortKey(b.bool(0, false))
	folded := make([]Value, len(keys))
	for i, k := range keys {
		folded[i] = fold(k)
	}
	pairs, err := items(f, d)
	if err != nil {
		return nil, err
	}
	out, err := f.sorted(pairs.Items, folded, b.bool(2, false))
	return &List{Items: out}, err
}

func uniqueFilter(f *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("unique", 0, "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	get, err := attributeOf(b[1], nil)
	if err != nil {
		return nil, err
	}
	items, err := f.sequence(v)
	if err != nil {
		return nil, err
	}
	fold := sortKey(b.bool(0, false))
	seen := NewDict()
	out := NewList()
	for _, x := range items {
		k, err := get(x)
		if err != nil {
			return nil, err
		}
		k = fold(k)
		if _, ok := seen.Get(k); ok {
			continue
		}
		if err := seen.Set(k, nil); err != nil {
			return nil, err
		}
		out.Items = append(out.Items, x)
	}
	return out, nil
}

func extremeFilter(name string, sign int) filterFunc {
	return func(f *frame, v Value, a arguments) (Value, error) {
		b, err := a.bind(name, 0, "case_sensitive", "attribute")
		if err != nil {
			return nil, err
		}
		get, err := attributeOf(b[1], nil)
		if err != nil {
			return nil, err
		}
		items, err := f.sequence(v)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return Undefined{Name: "the " + name + " of an empty sequence"}, nil
		}
		fold := sortKey(b.bool(0, false))
		var best, bestKey Value
		for i, x := range items {
			k, err := get(x)
			if err != nil {
				return nil, err
			}
			k = fold(k)
			if i > 0 {
				c, err := f.compare(k, bestKey)
				if err != nil {
					return nil, err
				}
				if c*sign <= 0 {
					continue
				}
			}
			best, bestKey = x, k
		}
		return best, nil
	}
}

func sumFilter(f *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("sum", 0, "attribute", "start")
	if err != nil {
		return nil, err
	}
	get, err := attributeOf(b[0], nil)
	if err != nil {
		return nil, err
	}
	items, err := f.mapped(v, get)
	if err != nil {
		return nil, err
	}
	total := Value(int64(0))
	if b.has(1) {
		total = b[1]
	}
	for _, x := range items {
		if total, err = f.binary("+", total, x); err != nil {
			return nil, err
		}
	}
	return total, nil
}

func itemsFilter(f *frame, v Value, a arguments) (Value, error) {
	if _, err := a.bind("items", 0); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case Undefined:
		return NewList(), nil
	case *Dict:
		return items(f, v)
	}
	return nil, fmt.Errorf("can only get item pairs from a mapping, not %s", typeName(v))
}
