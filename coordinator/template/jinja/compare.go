package jinja

import (
	"fmt"
	"strings"
)

// Comparisons look into lists and dicts. A template can build values that are far larger than its budget by using one value in many
// places, so that each step into one is paid for.
func (f *frame) into(depth int) error {
	if depth > maxValueDepth {
		return fmt.Errorf("%w: a value is nested deeper than %d", ErrLimit, maxValueDepth)
	}
	return f.produce(8)
}

// equal is Python's ==.
func (f *frame) equal(a, b Value) (bool, error) { return f.equalAt(a, b, 0) }

func (f *frame) equalAt(a, b Value, depth int) (bool, error) {
	if err := f.into(depth); err != nil {
		return false, err
	}
	if ai, af, aInt, ok := number(a); ok {
		bi, bf, bInt, ok := number(b)
		if aInt && bInt {
			return ok && ai == bi, nil
		}
		return ok && af == bf, nil
	}
	switch a := a.(type) {
	case Undefined:
		_, ok := b.(Undefined)
		return ok, nil
	case string:
		s, ok := b.(string)
		return ok && a == s, f.produce(len(a) / 8)
	case *List:
		l, ok := b.(*List)
		if !ok || l.Tuple != a.Tuple || len(l.Items) != len(a.Items) {
			return false, nil
		}
		for i := range a.Items {
			if same, err := f.equalAt(a.Items[i], l.Items[i], depth+1); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	case *Dict:
		d, ok := b.(*Dict)
		if !ok || d.Len() != a.Len() {
			return false, nil
		}
		for i, k := range a.keys {
			v, ok := d.Get(k)
			if !ok {
				return false, nil
			}
			if same, err := f.equalAt(a.values[i], v, depth+1); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	return a == b, nil // None, and what is equal only to itself
}

// compare is Python's ordering; it gives a negative number, 0 or a positive one. Values of different types have none.
func (f *frame) compare(a, b Value) (int, error) { return f.compareAt(a, b, 0) }

func (f *frame) compareAt(a, b Value, depth int) (int, error) {
	if err := f.into(depth); err != nil {
		return 0, err
	}
	if ai, af, aInt, ok := number(a); ok {
		if bi, bf, bInt, ok := number(b); ok {
			switch {
			case aInt && bInt && ai < bi, !(aInt && bInt) && af < bf:
				return -1, nil
			case aInt && bInt && ai > bi, !(aInt && bInt) && af > bf:
				return 1, nil
			}
			return 0, nil
		}
	}
	switch a := a.(type) {
	case string:
		if s, ok := b.(string); ok {
			return strings.Compare(a, s), f.produce(len(a) / 8)
		}
	case *List:
		if l, ok := b.(*List); ok && l.Tuple == a.Tuple {
			for i := range min(len(a.Items), len(l.Items)) {
				if c, err := f.compareAt(a.Items[i], l.Items[i], depth+1); c != 0 || err != nil {
					return c, err
				}
			}
			return len(a.Items) - len(l.Items), nil
		}
	}
	for _, v := range []Value{a, b} {
		if u, ok := v.(Undefined); ok {
			return 0, u.error()
		}
	}
	return 0, fmt.Errorf("%s and %s cannot be ordered", typeName(a), typeName(b))
}

// contains is Python's item in container.
func (f *frame) contains(container, item Value) (bool, error) {
	switch c := container.(type) {
	case string:
		s, ok := item.(string)
		if u, undefined := item.(Undefined); undefined {
			return false, u.error()
		}
		if !ok {
			return false, fmt.Errorf("%s cannot be in a str", typeName(item))
		}
		return strings.Contains(c, s), f.produce(len(c) / 8)
	case *Dict:
		_, ok := c.Get(item)
		return ok, nil
	case *List:
		for _, x := range c.Items {
			if same, err := f.equal(x, item); same || err != nil {
				return same, err
			}
		}
		return false, nil
	case Undefined:
		return false, nil
	}
	return false, fmt.Errorf("%s is not a container", typeName(container))
}
