package jinja

import (
	"fmt"
	"slices"
)

// groupByFilter gives (key, items) pairs, sorted by key.
func groupByFilter(f *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("groupby", 1, "attribute", "default", "case_sensitive")
	if err != nil {
		return nil, err
	}
	var otherwise Value
	if b.has(1) {
		otherwise = b[1]
	}
	get, err := attributeOf(b[0], otherwise)
	if err != nil {
		return nil, err
	}
	items, err := f.sequence(v)
	if err != nil {
		return nil, err
	}
	fold := sortKey(b.bool(2, false))
	keys := make([]Value, len(items))
	pairs := make([]Value, len(items)) // (key, item), to sort both
	for i, x := range items {
		k, err := get(x)
		if err != nil {
			return nil, err
		}
		keys[i] = fold(k)
		pairs[i] = &List{Items: []Value{k, x}, Tuple: true}
	}
	if pairs, err = f.sorted(pairs, keys, false); err != nil {
		return nil, err
	}
	out := NewList()
	var last Value
	for i, p := range pairs {
		pair := p.(*List).Items
		k := fold(pair[0])
		same := false
		if i > 0 {
			if same, err = f.equal(k, last); err != nil {
				return nil, err
			}
		}
		if !same {
			out.Items = append(out.Items, &List{Items: []Value{pair[0], NewList()}, Tuple: true})
		}
		last = k
		group := out.Items[len(out.Items)-1].(*List).Items[1].(*List)
		group.Items = append(group.Items, pair[1])
	}
	return out, nil
}

// batchFilter gives lists of n items; fill_with completes the last.
func batchFilter(f *frame, v Value, a arguments) (Value, error) {
	b, err := a.bind("batch", 1, "linecount", "fill_with")
	if err != nil {
		return nil, err
	}
	n, err := b.int(0, 0)
	if err != nil {
		return nil, err
	}
	if n < 1 || n > maxRange {
		return nil, fmt.Errorf("linecount must be between 1 and %d", maxRange)
	}
	items, err := f.sequence(v)
	if err != nil {
		return nil, err
	}
	out := NewList()
	for part := range slices.Chunk(items, int(n)) {
		row := slices.Clone(part)
		if fill, ok := b.given(1); ok {
			if err := f.produce(16 * int(n)); err != nil {
				return nil, err
			}
			for len(row) < int(n) {
				row = append(row, fill)
			}
		}
		out.Items = append(out.Items, &List{Items: row})
	}
	return out, nil
}
