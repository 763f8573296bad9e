package jinja

import (
	"fmt"
	"strings"
)

type testFunc func(f *frame, v Value, a arguments) (bool, error)

// tests are those of Jinja. They are filled in init, because select and reject run tests by name.
var tests map[string]testFunc

func init() {
	tests = map[string]testFunc{
		"defined":   func(_ *frame, v Value, _ arguments) (bool, error) { _, u := v.(Undefined); return !u, nil },
		"undefined": func(_ *frame, v Value, _ arguments) (bool, error) { _, u := v.(Undefined); return u, nil },
		"none":      func(_ *frame, v Value, _ arguments) (bool, error) { return v == nil, nil },
		"boolean":   func(_ *frame, v Value, _ arguments) (bool, error) { _, ok := v.(bool); return ok, nil },
		"true":      func(_ *frame, v Value, _ arguments) (bool, error) { return v == Value(true), nil },
		"false":     func(_ *frame, v Value, _ arguments) (bool, error) { return v == Value(false), nil },
		"string":    func(_ *frame, v Value, _ arguments) (bool, error) { _, ok := v.(string); return ok, nil },
		"integer":   func(_ *frame, v Value, _ arguments) (bool, error) { _, ok := v.(int64); return ok, nil },
		"float":     func(_ *frame, v Value, _ arguments) (bool, error) { _, ok := v.(float64); return ok, nil },
		"number":    func(_ *frame, v Value, _ arguments) (bool, error) { _, _, _, ok := number(v); return ok, nil },
		"mapping":   func(_ *frame, v Value, _ arguments) (bool, error) { _, ok := v.(*Dict); return ok, nil },
		"iterable": func(_ *frame, v Value, _ arguments) (bool, error) {
			switch v.(type) {
			case Undefined, string, *List, *Dict, *loop:
				return true, nil
			}
			return false, nil
		},
		"sequence": func(_ *frame, v Value, _ arguments) (bool, error) {
			switch v.(type) {
			case Undefined, string, *List, *Dict:
				return true, nil
			}
			return false, nil
		},
		"callable": func(_ *frame, v Value, _ arguments) (bool, error) {
			switch v.(type) {
			case *function, *loop:
				return true, nil
			}
			return false, nil
		},
		"escaped": func(*frame, Value, arguments) (bool, error) { return false, nil },
		"lower":   func(_ *frame, v Value, _ arguments) (bool, error) { return isCased(v, false), nil },
		"upper":   func(_ *frame, v Value, _ arguments) (bool, error) { return isCased(v, true), nil },
		"even":    func(_ *frame, v Value, _ arguments) (bool, error) { return divisible(v, 2) },
		"odd": func(_ *frame, v Value, _ arguments) (bool, error) {
			even, err := divisible(v, 2)
			return !even, err
		},
		"divisibleby": func(_ *frame, v Value, a arguments) (bool, error) {
			b, err := a.bind("divisibleby", 1, "num")
			if err != nil {
				return false, err
			}
			n, err := b.int(0, 1)
			if err != nil {
				return false, err
			}
			return divisible(v, n)
		},
		"sameas": func(_ *frame, v Value, a arguments) (bool, error) {
			b, err := a.bind("sameas", 1, "other")
			if err != nil {
				return false, err
			}
			if _, ok := v.(Undefined); ok {
				return false, nil
			}
			return v == b[0], nil
		},
		"filter": func(_ *frame, v Value, _ arguments) (bool, error) {
			name, _ := v.(string)
			_, ok := filters[name]
			return ok, nil
		},
		"test": func(_ *frame, v Value, _ arguments) (bool, error) {
			name, _ := v.(string)
			_, ok := tests[name]
			return ok, nil
		},
	}
	for operator, names := range map[string][]string{
		"==": {"eq", "equalto", "=="}, "!=": {"ne", "!="}, "<": {"lt", "lessthan", "<"}, "<=": {"le", "<="},
		">": {"gt", "greaterthan", ">"}, ">=": {"ge", ">="}, "in": {"in"},
	} {
		for _, name := range names {
			tests[name] = func(f *frame, v Value, a arguments) (bool, error) {
				b, err := a.bind(name, 1, "other")
				if err != nil {
					return false, err
				}
				return f.compareWith(operator, v, b[0])
			}
		}
	}
}

func divisible(v Value, by int64) (bool, error) {
	n, _, isInt, _ := number(v)
	if !isInt {
		return false, fmt.Errorf("needs an int, not %s", typeName(v))
	}
	if by == 0 {
		return false, fmt.Errorf("division by zero")
	}
	return by == -1 || n%by == 0, nil
}

// isCased is Python's islower and isupper: some character has a case, and all that have one have this one.
func isCased(v Value, upper bool) bool {
	s, ok := v.(string)
	if !ok {
		return false
	}
	if upper {
		return s == strings.ToUpper(s) && s != strings.ToLower(s)
	}
	return s == strings.ToLower(s) && s != strings.ToUpper(s)
}
