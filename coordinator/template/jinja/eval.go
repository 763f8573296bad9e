package jinja

import (
	"fmt"
)

func (e *literal) eval(*frame) (Value, error) { return e.value, nil }

func (e *nameExpr) eval(f *frame) (Value, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	if v, ok := f.lookup(e.name); ok {
		return v, nil
	}
	return Undefined{Name: fmt.Sprintf("%q", e.name)}, nil
}

func evalAll(f *frame, exprs []expr) ([]Value, error) {
	if err := f.produce(stepCost + 16*len(exprs)); err != nil {
		return nil, err
	}
	out := make([]Value, len(exprs))
	for i, e := range exprs {
		var err error
		if out[i], err = e.eval(f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e *listExpr) eval(f *frame) (Value, error) {
	items, err := evalAll(f, e.items)
	return &List{items, e.tuple}, err
}

func (e *dictExpr) eval(f *frame) (Value, error) {
	keys, err := evalAll(f, e.keys)
	if err != nil {
		return nil, err
	}
	values, err := evalAll(f, e.values)
	if err != nil {
		return nil, err
	}
	d := NewDict()
	for i, k := range keys {
		if err := d.Set(k, values[i]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (e *attrExpr) eval(f *frame) (Value, error) {
	object, err := e.object.eval(f)
	if err != nil {
		return nil, err
	}
	if err := f.step(); err != nil {
		return nil, err
	}
	v, err := attribute(object, e.name)
	return v, atLine(e.line, err)
}

func (e *itemExpr) eval(f *frame) (Value, error) {
	object, err := e.object.eval(f)
	if err != nil {
		return nil, err
	}
	if err := f.step(); err != nil {
		return nil, err
	}
	if s, ok := e.key.(*sliceExpr); ok {
		v, err := s.of(f, object)
		return v, atLine(e.line, err)
	}
	key, err := e.key.eval(f)
	if err != nil {
		return nil, err
	}
	if s, ok := object.(string); ok {
		if err := f.produce(len(s) / 8); err != nil {
			return nil, err
		}
	}
	v, err := item(object, key)
	return v, atLine(e.line, err)
}

func (e *sliceExpr) eval(*frame) (Value, error) {
	return nil, fmt.Errorf("a slice is no value")
}

func (a argumentExprs) eval(f *frame) (out arguments, err error) {
	if out.positional, err = evalAll(f, a.positional); err != nil {
		return out, err
	}
	if a.spread != nil {
		v, err := a.spread.eval(f)
		if err != nil {
			return out, err
		}
		items, err := iterate(v)
		if err != nil {
			return out, err
		}
		if err := f.produce(16 * len(items)); err != nil {
			return out, err
		}
		out.positional = append(out.positional, items...)
	}
	if len(a.named) > 0 {
		out.names = append([]string(nil), a.names...)
		if out.named, err = evalAll(f, a.named); err != nil {
			return out, err
		}
	}
	if a.spreadMap != nil {
		v, err := a.spreadMap.eval(f)
		if err != nil {
			return out, err
		}
		d, ok := v.(*Dict)
		if !ok {
			return out, fmt.Errorf("argument after ** must be a dict, not %s", typeName(v))
		}
		for i, k := range d.keys {
			name, ok := k.(string)
			if !ok {
				return out, fmt.Errorf("keywords must be strings")
			}
			out.names, out.named = append(out.names, name), append(out.named, d.values[i])
		}
	}
	return out, nil
}

func (e *callExpr) eval(f *frame) (Value, error) {
	callee, err := e.callee.eval(f)
	if err != nil {
		return nil, err
	}
	a, err := e.arguments.eval(f)
	if err != nil {
		return nil, err
	}
	v, err := f.invoke(callee, a)
	return v, atLine(e.line, err)
}

func (f *frame) invoke(callee Value, a arguments) (Value, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	switch c := callee.(type) {
	case *function:
		return c.call(f, a)
	case *loop:
		if c.again == nil {
			return nil, fmt.Errorf("the loop must have the 'recursive' marker to be called")
		}
		b, err := a.bind("loop", 1, "iterable")
		if err != nil {
			return nil, err
		}
		return c.again(f, b[0])
	case Undefined:
		return nil, c.error()
	}
	return nil, fmt.Errorf("%s is not callable", typeName(callee))
}

func (e *filterExpr) eval(f *frame) (Value, error) {
	v, err := e.value.eval(f)
	if err != nil {
		return nil, err
	}
	a, err := e.arguments.eval(f)
	if err != nil {
		return nil, err
	}
	v, err = f.filter(e.name, v, a)
	return v, atLine(e.line, err)
}

func (f *frame) filter(name string, v Value, a arguments) (Value, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	filter, ok := filters[name]
	if !ok {
		return nil, fmt.Errorf("no filter named %q", name)
	}
	out, err := filter(f, v, a)
	if err != nil {
		return nil, fmt.Errorf("filter %s: %w", name, err)
	}
	return out, nil
}

func (e *testExpr) eval(f *frame) (Value, error) {
	v, err := e.value.eval(f)
	if err != nil {
		return nil, err
	}
	a, err := e.arguments.eval(f)
	if err != nil {
		return nil, err
	}
	ok, err := f.test(e.name, v, a)
	return ok != e.negated, atLine(e.line, err)
}

func (f *frame) test(name string, v Value, a arguments) (bool, error) {
	if err := f.step(); err != nil {
		return false, err
	}
	test, ok := tests[name]
	if !ok {
		return false, fmt.Errorf("no test named %q", name)
	}
	yes, err := test(f, v, a)
	if err != nil {
		return false, fmt.Errorf("test %s: %w", name, err)
	}
	return yes, nil
}

func (e *conditionExpr) eval(f *frame) (Value, error) {
	c, err := e.condition.eval(f)
	if err != nil {
		return nil, err
	}
	switch {
	case truth(c):
		return e.then.eval(f)
	case e.otherwise != nil:
		return e.otherwise.eval(f)
	}
	return Undefined{Name: "the inline if-expression evaluated to false and has no else: it"}, nil
}

func (e *notExpr) eval(f *frame) (Value, error) {
	v, err := e.value.eval(f)
	return !truth(v), err
}

func (e *logicExpr) eval(f *frame) (Value, error) {
	var v Value
	for _, o := range e.operands {
		var err error
		if v, err = o.eval(f); err != nil {
			return nil, err
		}
		if truth(v) != e.and {
			break
		}
	}
	return v, nil
}

func (e *compareExpr) eval(f *frame) (Value, error) {
	left, err := e.first.eval(f)
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
		ok, err := f.compareWith(operator, left, right)
		if err != nil || !ok {
			return false, atLine(e.line, err)
		}
		left = right
	}
	return true, nil
}

func (f *frame) compareWith(operator string, left, right Value) (bool, error) {
	switch operator {
	case "==":
		return f.equal(left, right)
	case "!=":
		ok, err := f.equal(left, right)
		return !ok, err
	case "in":
		return f.contains(right, left)
	case "not in":
		ok, err := f.contains(right, left)
		return !ok, err
	}
	c, err := f.compare(left, right)
	switch operator {
	case "<":
		return c < 0, err
	case "<=":
		return c <= 0, err
	case ">":
		return c > 0, err
	}
	return c >= 0, err
}

func (e *concatExpr) eval(f *frame) (Value, error) {
	var text []byte
	for _, p := range e.parts {
		v, err := p.eval(f)
		if err != nil {
			return nil, err
		}
		s, err := f.str(v)
		if err != nil {
			return nil, err
		}
		if err := f.produce(len(s)); err != nil {
			return nil, err
		}
		text = append(text, s...)
	}
	return string(text), nil
}
