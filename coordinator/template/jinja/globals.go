package jinja

import "fmt"

const maxRange = 100_000 // as in Jinja's sandbox

// globals are the functions that every template has.
var globals = map[string]Value{
	"range": &function{name: "range", call: func(f *frame, a arguments) (Value, error) {
		b, err := a.bind("range", 1, "start", "stop", "step")
		if err != nil {
			return nil, err
		}
		start, err := b.int(0, 0)
		if err != nil {
			return nil, err
		}
		stop, err := b.int(1, start)
		if err != nil {
			return nil, err
		}
		if !b.has(1) {
			start = 0
		}
		step, err := b.int(2, 1)
		if err != nil {
			return nil, err
		}
		if step == 0 {
			return nil, fmt.Errorf("range: step must not be zero")
		}
		l := NewList()
		for i := start; step > 0 && i < stop || step < 0 && i > stop; {
			if len(l.Items) >= maxRange {
				return nil, fmt.Errorf("%w: a range has more than %d numbers", ErrLimit, maxRange)
			}
			l.Items = append(l.Items, i)
			next, err := integers("+", i, step)
			if err != nil {
				break
			}
			i = next.(int64)
		}
		return l, f.produce(16 * len(l.Items))
	}},
	"namespace": &function{name: "namespace", call: func(_ *frame, a arguments) (Value, error) {
		d, err := newDict(a)
		if err != nil {
			return nil, err
		}
		return &namespace{d}, nil
	}},
	"dict": &function{name: "dict", call: func(_ *frame, a arguments) (Value, error) { return newDict(a) }},
}

// newDict is Python's dict(mapping, **values).
func newDict(a arguments) (*Dict, error) {
	d := NewDict()
	if len(a.positional) > 1 {
		return nil, fmt.Errorf("dict takes at most 1 argument, not %d", len(a.positional))
	}
	for _, v := range a.positional {
		if m, ok := v.(*Dict); ok {
			for i, k := range m.keys {
				if err := d.Set(k, m.values[i]); err != nil {
					return nil, err
				}
			}
			continue
		}
		items, err := iterate(v)
		if err != nil {
			return nil, err
		}
		for _, x := range items {
			pair, ok := x.(*List)
			if !ok || len(pair.Items) != 2 {
				return nil, fmt.Errorf("dict needs pairs")
			}
			if err := d.Set(pair.Items[0], pair.Items[1]); err != nil {
				return nil, err
			}
		}
	}
	for i, name := range a.names {
		if err := d.Set(name, a.named[i]); err != nil {
			return nil, err
		}
	}
	return d, nil
}
