package jinja

import "fmt"

func mapFilter(f *frame, v Value, a arguments) (Value, error) {
	get, err := mapping(f, a)
	if err != nil || !truth(v) {
		return NewList(), err
	}
	items, err := f.mapped(v, get)
	return &List{Items: items}, err
}

// mapping gives the function of map: an attribute, or a filter with its arguments.
func mapping(f *frame, a arguments) (func(Value) (Value, error), error) {
	if len(a.positional) == 0 {
		b, err := a.bind("map", 0, "attribute", "default")
		if err != nil {
			return nil, err
		}
		if !b.has(0) {
			return nil, fmt.Errorf("needs a filter or an attribute")
		}
		var otherwise Value
		if b.has(1) {
			otherwise = b[1]
		}
		return attributeOf(b[0], otherwise)
	}
	name, ok := a.positional[0].(string)
	if !ok {
		return nil, fmt.Errorf("needs the name of a filter, not %s", typeName(a.positional[0]))
	}
	rest := arguments{a.positional[1:], a.names, a.named}
	return func(x Value) (Value, error) { return f.filter(name, x, rest) }, nil
}

func selectFilter(name string, keep, withAttribute bool) filterFunc {
	return func(f *frame, v Value, a arguments) (Value, error) {
		get := func(x Value) (Value, error) { return x, nil }
		if withAttribute {
			if len(a.positional) == 0 {
				return nil, fmt.Errorf("needs an attribute")
			}
			var err error
			if get, err = attributeOf(a.positional[0], nil); err != nil {
				return nil, err
			}
			a.positional = a.positional[1:]
		}
		check := func(x Value) (bool, error) { return truth(x), nil }
		if len(a.positional) > 0 {
			test, ok := a.positional[0].(string)
			if !ok {
				return nil, fmt.Errorf("needs the name of a test, not %s", typeName(a.positional[0]))
			}
			rest := arguments{a.positional[1:], a.names, a.named}
			check = func(x Value) (bool, error) { return f.test(test, x, rest) }
		}
		items, err := f.maybeSequence(v)
		if err != nil {
			return nil, err
		}
		out := NewList()
		for _, x := range items {
			if err := f.step(); err != nil {
				return nil, err
			}
			y, err := get(x)
			if err != nil {
				return nil, err
			}
			ok, err := check(y)
			if err != nil {
				return nil, err
			}
			if ok == keep {
				out.Items = append(out.Items, x)
			}
		}
		return out, nil
	}
}
