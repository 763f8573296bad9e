package jinja

import (
	"errors"
	"fmt"
)

func (n *textNode) exec(f *frame) error { return f.write(n.text) }

func (n *outputNode) exec(f *frame) error {
	v, err := n.value.eval(f)
	if err != nil {
		return atLine(n.line, err)
	}
	s, err := f.str(v)
	if err != nil {
		return atLine(n.line, err)
	}
	return f.write(s)
}

func (n *ifNode) exec(f *frame) error {
	for i, c := range n.conditions {
		v, err := c.eval(f)
		if err != nil {
			return atLine(n.line, err)
		}
		if truth(v) {
			return f.exec(n.bodies[i])
		}
	}
	return f.exec(n.otherwise)
}

func (n *controlNode) exec(*frame) error { return n.control }

func (n *scopeNode) exec(f *frame) error { return f.inner().exec(n.body) }

func (n *setNode) exec(f *frame) error {
	v, err := n.value.eval(f)
	if err != nil {
		return atLine(n.line, err)
	}
	return atLine(n.line, f.assign(n.target, v))
}

func (n *setBlockNode) exec(f *frame) error {
	inner := f.capture()
	if err := inner.exec(n.body); err != nil {
		return err
	}
	var v Value = inner.out.String()
	if n.filters != nil {
		inner.set(blockName, v)
		var err error
		if v, err = n.filters.eval(inner); err != nil {
			return atLine(n.line, err)
		}
	}
	if n.target.name != "" || n.target.several != nil {
		return atLine(n.line, f.assign(n.target, v))
	}
	s, err := f.str(v)
	if err != nil {
		return atLine(n.line, err)
	}
	return f.write(s)
}

// blockName is no name that a template can write.
const blockName = "(block)"

func (blockValue) eval(f *frame) (Value, error) {
	v, _ := f.lookup(blockName)
	return v, nil
}

func (n *withNode) exec(f *frame) error {
	inner := f.inner()
	for i, t := range n.targets {
		v, err := n.values[i].eval(f)
		if err == nil {
			err = inner.assign(t, v)
		}
		if err != nil {
			return atLine(n.line, err)
		}
	}
	return inner.exec(n.body)
}

// assign sets a name in this scope, or an attribute of a namespace.
func (f *frame) assign(t target, v Value) error {
	switch {
	case t.several != nil:
		items, err := iterate(v)
		if err != nil {
			return err
		}
		if len(items) != len(t.several) {
			return fmt.Errorf("cannot unpack %d values into %d names", len(items), len(t.several))
		}
		for i, x := range t.several {
			if err := f.assign(x, items[i]); err != nil {
				return err
			}
		}
		return nil
	case t.attribute != "":
		object, _ := f.lookup(t.name)
		ns, ok := object.(*namespace)
		if !ok {
			return fmt.Errorf("cannot assign attribute on non-namespace object %q", t.name)
		}
		return ns.attributes.Set(t.attribute, v)
	}
	f.set(t.name, v)
	return nil
}

func (n *forNode) exec(f *frame) error {
	over, err := n.over.eval(f)
	if err != nil {
		return atLine(n.line, err)
	}
	return n.run(f, over, 0)
}

// run goes through over; depth counts loops that called themselves.
func (n *forNode) run(f *frame, over Value, depth int) error {
	items, err := iterate(over)
	if err != nil {
		return atLine(n.line, err)
	}
	if n.filter != nil {
		if items, err = n.choose(f, items); err != nil {
			return atLine(n.line, err)
		}
	}
	if len(items) == 0 {
		return f.inner().exec(n.otherwise)
	}
	l := &loop{items: items, depth: depth}
	if n.recursive {
		l.again = func(g *frame, over Value) (Value, error) {
			return g.r.call(func() (Value, error) {
				// The body sees what was around the loop, not what called it.
				inner := f.capture()
				err := n.run(inner, over, depth+1)
				return inner.out.String(), err
			})
		}
	}
	for i := range items {
		l.at = i
		inner := f.inner()
		if err := inner.step(); err != nil {
			return err
		}
		inner.set("loop", l)
		if err := inner.assign(n.target, items[i]); err != nil {
			return atLine(n.line, err)
		}
		err := inner.exec(n.body)
		if errors.Is(err, errBreak) {
			break
		}
		if err != nil && !errors.Is(err, errContinue) {
			return err
		}
	}
	return nil
}

// choose gives the items for which the loop's filter is true.
func (n *forNode) choose(f *frame, items []Value) ([]Value, error) {
	var chosen []Value
	for _, x := range items {
		inner := f.inner()
		if err := inner.assign(n.target, x); err != nil {
			return nil, err
		}
		v, err := n.filter.eval(inner)
		if err != nil {
			return nil, err
		}
		if truth(v) {
			chosen = append(chosen, x)
		}
	}
	return chosen, nil
}

func (n *macroNode) exec(f *frame) error {
	f.set(n.name, n.bind(f))
	return nil
}

// bind makes the macro callable; its body sees the scope in which it was defined.
func (n *macroNode) bind(defined *frame) *function {
	return &function{name: n.name, call: func(f *frame, a arguments) (Value, error) {
		return f.r.call(func() (Value, error) {
			inner := defined.capture()
			if err := n.parametersOf(inner, a); err != nil {
				return nil, atLine(n.line, err)
			}
			if err := inner.exec(n.body); err != nil {
				return nil, err
			}
			return inner.out.String(), nil
		})
	}}
}

func (n *macroNode) parametersOf(inner *frame, a arguments) error {
	named := NewDict()
	for i, name := range a.names {
		if err := named.Set(name, a.named[i]); err != nil {
			return err
		}
	}
	used := 0
	for i, p := range n.parameters {
		v, ok := named.Get(p.name)
		switch {
		case i < len(a.positional) && ok:
			return fmt.Errorf("macro %q got multiple values for argument %q", n.name, p.name)
		case i < len(a.positional):
			v = a.positional[i]
		case ok:
			used++
		case p.fallback != nil:
			var err error
			if v, err = p.fallback.eval(inner); err != nil {
				return err
			}
		default:
			v = Undefined{Name: fmt.Sprintf("parameter %q", p.name)}
		}
		inner.set(p.name, v)
	}
	if n.varargs {
		inner.set("varargs", &List{Items: a.positional[min(len(n.parameters), len(a.positional)):], Tuple: true})
	} else if len(a.positional) > len(n.parameters) {
		return fmt.Errorf("macro %q takes not more than %d arguments", n.name, len(n.parameters))
	}
	if n.caller {
		v, ok := named.Get("caller")
		if !ok {
			v = Undefined{Name: "caller"}
		} else {
			used++
		}
		inner.set("caller", v)
	}
	if n.kwargs {
		rest := NewDict()
		for i, k := range named.keys {
			if !n.hasParameter(k) && !(k == Value("caller") && n.caller) {
				if err := rest.Set(k, named.values[i]); err != nil {
					return err
				}
			}
		}
		inner.set("kwargs", rest)
	} else if used < named.Len() {
		for _, k := range named.keys {
			if !n.hasParameter(k) && !(k == Value("caller") && n.caller) {
				return fmt.Errorf("macro %q takes no keyword argument %q", n.name, k)
			}
		}
	}
	return nil
}

func (n *macroNode) hasParameter(name Value) bool {
	for _, p := range n.parameters {
		if name == Value(p.name) {
			return true
		}
	}
	return false
}

func (n *callNode) exec(f *frame) error {
	a, err := n.call.arguments.eval(f)
	if err != nil {
		return atLine(n.line, err)
	}
	a.names, a.named = append(a.names, "caller"), append(a.named, Value(n.macroNode.bind(f)))
	callee, err := n.call.callee.eval(f)
	if err != nil {
		return atLine(n.line, err)
	}
	v, err := f.invoke(callee, a)
	if err != nil {
		return atLine(n.line, err)
	}
	s, err := f.str(v)
	if err != nil {
		return atLine(n.line, err)
	}
	return f.write(s)
}

// call runs a macro's body, within the limit of macros in each other.
func (r *renderer) call(body func() (Value, error)) (Value, error) {
	if r.calls++; r.calls > maxCalls {
		return nil, fmt.Errorf("%w: more than %d macros call each other", ErrLimit, maxCalls)
	}
	defer func() { r.calls-- }()
	return body()
}
