package jinja

import (
	"fmt"
	"slices"
)

// arguments are those of a call, evaluated.
type arguments struct {
	positional []Value
	names      []string
	named      []Value
}

// absent stands for a parameter that was not given.
type absent struct{}

// bound are the arguments of a built-in by the place of their parameter.
type bound []Value

// bind gives each parameter its argument; the first required ones must be there.
func (a arguments) bind(what string, required int, parameters ...string) (bound, error) {
	if len(a.positional) > len(parameters) {
		return nil, fmt.Errorf("%s takes at most %d arguments, not %d", what, len(parameters), len(a.positional))
	}
	b := make(bound, len(parameters))
	for i := range b {
		b[i] = absent{}
	}
	copy(b, a.positional)
	for i, name := range a.names {
		j := slices.Index(parameters, name)
		if j < 0 {
			return nil, fmt.Errorf("%s takes no keyword argument %q", what, name)
		}
		if b.has(j) {
			return nil, fmt.Errorf("%s got two values for argument %q", what, name)
		}
		b[j] = a.named[i]
	}
	for i := range required {
		if !b.has(i) {
			return nil, fmt.Errorf("%s needs the argument %q", what, parameters[i])
		}
	}
	return b, nil
}

func (b bound) has(i int) bool {
	_, missing := b[i].(absent)
	return !missing
}

// given gives an argument that is there and not None.
func (b bound) given(i int) (Value, bool) {
	if !b.has(i) || b[i] == nil {
		return nil, false
	}
	return b[i], true
}

func (b bound) str(i int, otherwise string) (string, error) {
	v, ok := b.given(i)
	if !ok {
		return otherwise, nil
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("argument %d must be a str, not %s", i+1, typeName(v))
	}
	return s, nil
}

func (b bound) int(i int, otherwise int64) (int64, error) {
	v, ok := b.given(i)
	if !ok {
		return otherwise, nil
	}
	n, _, isInt, _ := number(v)
	if !isInt {
		return 0, fmt.Errorf("argument %d must be an int, not %s", i+1, typeName(v))
	}
	return n, nil
}

func (b bound) bool(i int, otherwise bool) bool {
	if !b.has(i) {
		return otherwise
	}
	return truth(b[i])
}
