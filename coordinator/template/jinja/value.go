package jinja

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// Value is a value of the template language: nil (None), Undefined, bool, int64, float64, string, *List, *Dict, or one of the
// package's own kinds (namespaces, macros, functions, loops).
type Value any

// Undefined is what a missing variable, attribute or item evaluates to: it prints as nothing and is false, and using it in any other
// way is an error that names it.
type Undefined struct{ Name string }

// List is a Python list, or a tuple. Lists are never changed.
type List struct {
	Items []Value
	Tuple bool
}

// NewList makes a list of items.
func NewList(items ...Value) *List { return &List{Items: items} }

// Dict is a Python dict: it keeps the order in which keys were added.
type Dict struct {
	keys   []Value
	values []Value
	index  map[Value]int
}

// NewDict makes an empty dict.
func NewDict() *Dict { return &Dict{index: map[Value]int{}} }

// Set adds a key, or replaces its value. A key is a string, a number, a bool or None.
func (d *Dict) Set(key, value Value) error {
	k, ok := hashable(key)
	if !ok {
		return fmt.Errorf("unhashable type: %s", typeName(key))
	}
	if i, ok := d.index[k]; ok {
		d.values[i] = value
		return nil
	}
	d.index[k] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, value)
	return nil
}

// Get finds the value of a key.
func (d *Dict) Get(key Value) (Value, bool) {
	k, ok := hashable(key)
	if !ok {
		return nil, false
	}
	i, ok := d.index[k]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// Len is the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// hashable gives the form of a key under which equal keys are the same: 1, 1.0 and True are one key in Python.
func hashable(key Value) (Value, bool) {
	switch k := key.(type) {
	case nil, string, int64:
		return k, true
	case bool:
		return asInt(k), true
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<62 {
			return int64(k), true
		}
		return k, k == k
	}
	return nil, false
}

func asInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// namespace is what namespace() makes: the only thing that a template can change from inside a loop.
type namespace struct{ attributes *Dict }

// function is anything that can be called.
type function struct {
	name string
	call func(f *frame, a arguments) (Value, error)
}

// typeName is Python's name of a value's type, for errors.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case Undefined:
		return "Undefined"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		if v.Tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case *namespace:
		return "Namespace"
	case *function:
		return "function"
	case *loop:
		return "LoopContext"
	}
	return fmt.Sprintf("%T", v)
}

// truth is Python's bool(v).
func truth(v Value) bool {
	switch v := v.(type) {
	case nil, Undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *List:
		return len(v.Items) > 0
	case *Dict:
		return v.Len() > 0
	}
	return true
}

// number gives a number as int64 or float64; bools are numbers in Python.
func number(v Value) (i int64, f float64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		return asInt(v), float64(asInt(v)), true, true
	case int64:
		return v, float64(v), true, true
	case float64:
		return 0, v, false, true
	}
	return 0, 0, false, false
}

func (u Undefined) error() error {
	if u.Name == "" {
		return fmt.Errorf("a value is undefined")
	}
	return fmt.Errorf("%s is undefined", u.Name)
}

// length is Python's len(v).
func length(v Value) (int, error) {
	switch v := v.(type) {
	case Undefined:
		return 0, nil
	case string:
		return utf8.RuneCountInString(v), nil
	case *List:
		return len(v.Items), nil
	case *Dict:
		return v.Len(), nil
	case *loop:
		return len(v.items), nil
	}
	return 0, fmt.Errorf("%s has no length", typeName(v))
}

// iterate gives what a loop over v goes through.
func iterate(v Value) ([]Value, error) {
	switch v := v.(type) {
	case Undefined:
		return nil, nil
	case *List:
		return v.Items, nil
	case *Dict:
		return v.keys, nil
	case string:
		var out []Value
		for _, r := range v {
			out = append(out, string(r))
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s is not iterable", typeName(v))
}
