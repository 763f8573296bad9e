package jinja

import (
	"fmt"
	"math"
	"strings"
)

func (e *binaryExpr) eval(f *frame) (Value, error) {
	v, err := e.first.eval(f)
	if err != nil {
		return nil, err
	}
	for i, operator := range e.operators {
		if err := f.step(); err != nil {
			return nil, err
		}
		right, err := e.others[i].eval(f)
		if err != nil {
			return nil, err
		}
		if v, err = f.binary(operator, v, right); err != nil {
			return nil, atLine(e.line, err)
		}
	}
	return v, nil
}

func (e *unaryExpr) eval(f *frame) (Value, error) {
	v, err := e.value.eval(f)
	if err != nil {
		return nil, err
	}
	i, x, isInt, ok := number(v)
	switch {
	case !ok:
		return nil, atLine(e.line, operandError(e.operator, v, int64(0)))
	case isInt && e.operator == "-":
		return -i, nil
	case isInt:
		return i, nil
	case e.operator == "-":
		return -x, nil
	}
	return x, nil
}

func operandError(operator string, a, b Value) error {
	for _, v := range []Value{a, b} {
		if u, ok := v.(Undefined); ok {
			return u.error()
		}
	}
	return fmt.Errorf("unsupported operand types for %s: %s and %s", operator, typeName(a), typeName(b))
}

func (f *frame) binary(operator string, a, b Value) (Value, error) {
	ai, af, aInt, aOK := number(a)
	bi, bf, bInt, bOK := number(b)
	switch {
	case aOK && bOK && aInt && bInt && operator != "/":
		return integers(operator, ai, bi)
	case aOK && bOK:
		return floats(operator, af, bf)
	}
	switch operator {
	case "+":
		return f.add(a, b)
	case "*":
		if aInt {
			a, bi, bInt = b, ai, true
		}
		if bInt {
			return f.repeat(a, bi)
		}
	case "%":
		if s, ok := a.(string); ok {
			return f.printf(s, b)
		}
	}
	return nil, operandError(operator, a, b)
}

func (f *frame) add(a, b Value) (Value, error) {
	switch a := a.(type) {
	case string:
		if s, ok := b.(string); ok {
			return a + s, f.produce(len(a) + len(s))
		}
	case *List:
		if l, ok := b.(*List); ok && l.Tuple == a.Tuple {
			if err := f.produce(16 * (len(a.Items) + len(l.Items))); err != nil {
				return nil, err
			}
			items := make([]Value, 0, len(a.Items)+len(l.Items))
			return &List{append(append(items, a.Items...), l.Items...), a.Tuple}, nil
		}
	}
	return nil, operandError("+", a, b)
}

func (f *frame) repeat(v Value, times int64) (Value, error) {
	times = max(times, 0)
	size := 0
	l, isList := v.(*List)
	s, isString := v.(string)
	switch {
	case isList:
		size = 16 * len(l.Items)
	case isString:
		size = len(s)
	default:
		return nil, operandError("*", v, times)
	}
	if size > 0 && times > f.r.work/int64(size) {
		return nil, f.produce(math.MaxInt)
	}
	if err := f.produce(size * int(times)); err != nil {
		return nil, err
	}
	if isString {
		return strings.Repeat(s, int(times)), nil
	}
	out := &List{Tuple: l.Tuple}
	for range times {
		if len(l.Items) == 0 {
			break
		}
		out.Items = append(out.Items, l.Items...)
	}
	return out, nil
}

var errTooLarge = fmt.Errorf("integer is too large")

func integers(operator string, a, b int64) (Value, error) {
	switch operator {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c, nil
		}
		return nil, errTooLarge
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c, nil
		}
		return nil, errTooLarge
	case "*":
		if a == 0 || b == 0 {
			return int64(0), nil
		}
		if c := a * b; c/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64) {
			return c, nil
		}
		return nil, errTooLarge
	case "**":
		return power(a, b)
	}
	if b == 0 {
		return nil, fmt.Errorf("division by zero")
	}
	if b == -1 {
		if operator == "%" {
			return int64(0), nil
		}
		return integers("*", a, -1)
	}
	// Python rounds down and gives the remainder the divisor's sign.
	q, r := a/b, a%b
	if r != 0 && (r < 0) != (b < 0) {
		q, r = q-1, r+b
	}
	if operator == "//" {
		return q, nil
	}
	return r, nil
}

// power is a to the b-th, for the exponents that need no logarithm.
func power(a, b int64) (Value, error) {
	if b < 0 {
		return nil, fmt.Errorf("negative exponents are not supported")
	}
	result := int64(1)
	for ; b > 0; b-- {
		if a == 0 || a == 1 || a == -1 {
			if a == -1 && b%2 == 0 {
				return result, nil
			}
			return result * a, nil
		}
		v, err := integers("*", result, a)
		if err != nil {
			return nil, err
		}
		result = v.(int64)
	}
	return result, nil
}

func floats(operator string, a, b float64) (Value, error) {
	switch operator {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "**":
		return nil, fmt.Errorf("powers of floats are not supported")
	}
	if b == 0 {
		return nil, fmt.Errorf("division by zero")
	}
	switch operator {
	case "/":
		return a / b, nil
	case "//":
		return math.Floor(a / b), nil
	}
	r := math.Mod(a, b)
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r, nil
}
