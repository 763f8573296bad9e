package jinja

import "slices"

// postfix reads attributes, items and calls.
func (p *parser) postfix(e expr) (expr, error) {
	depth := p.depth
	defer func() { p.depth = depth }()
	for {
		t := p.peek()
		if t.kind != tokenOperator {
			return e, nil
		}
		var err error
		switch t.text {
		case ".":
			p.at++
			e, err = p.attribute(e)
		case "[":
			p.at++
			e, err = p.subscript(e)
		case "(":
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err == nil {
			err = p.enter() // the tree grows to the left
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) attribute(object expr) (expr, error) {
	t := p.peek()
	p.at++
	switch t.kind {
	case tokenName:
		return &attrExpr{object, t.text, t.line}, nil
	case tokenInteger:
		return &itemExpr{object, &literal{t.value}, t.line}, nil
	}
	p.at--
	return nil, p.errorf("expected the name of an attribute")
}

func (p *parser) subscript(object expr) (expr, error) {
	item := &itemExpr{object: object, line: p.peek().line}
	var bounds [3]expr
	n := 0
	slice := false
	for !p.takeOperator("]") {
		if p.takeOperator(":") {
			slice = true
			if n++; n > 2 {
				return nil, p.errorf("a slice has at most three parts")
			}
			continue
		}
		if bounds[n] != nil {
			return nil, p.errorf(`expected "]"`)
		}
		var err error
		if bounds[n], err = p.expression(); err != nil {
			return nil, err
		}
	}
	switch {
	case slice:
		item.key = &sliceExpr{bounds[0], bounds[1], bounds[2]}
	case bounds[0] == nil:
		return nil, p.errorf("expected a key")
	default:
		item.key = bounds[0]
	}
	return item, nil
}

func (p *parser) call(callee expr) (expr, error) {
	c := &callExpr{callee: callee, line: p.peek().line}
	var err error
	c.arguments, err = p.arguments()
	return c, err
}

// arguments reads arguments in parentheses.
func (p *parser) arguments() (a argumentExprs, err error) {
	p.at++
	for first := true; !p.takeOperator(")"); first = false {
		if !first {
			if !p.takeOperator(",") {
				return a, p.errorf(`expected "," or ")"`)
			}
			if p.takeOperator(")") {
				break
			}
		}
		t := p.peek()
		switch {
		case p.takeOperator("**"):
			a.spreadMap, err = p.expression()
		case p.takeOperator("*"):
			a.spread, err = p.expression()
		case t.kind == tokenName && p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind == tokenOperator && p.tokens[p.at+1].text == "=":
			p.at += 2
			var e expr
			e, err = p.expression()
			a.names, a.named = append(a.names, t.text), append(a.named, e)
		default:
			if len(a.named) > 0 || a.spreadMap != nil {
				return a, p.errorf("a positional argument follows a keyword argument")
			}
			var e expr
			e, err = p.expression()
			a.positional = append(a.positional, e)
		}
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// filters reads | filter, is test and calls behind a value.
func (p *parser) filters(e expr) (expr, error) {
	depth := p.depth
	defer func() { p.depth = depth }()
	for {
		var err error
		switch {
		case p.takeOperator("|"):
			e, err = p.filter(e)
		case p.takeName("is"):
			e, err = p.test(e)
		case p.isOperator("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err == nil {
			err = p.enter() // the tree grows to the left
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) filter(value expr) (expr, error) {
	t := p.peek()
	if t.kind != tokenName {
		return nil, p.errorf("expected the name of a filter")
	}
	p.at++
	f := &filterExpr{value: value, name: t.text, line: t.line}
	var err error
	if p.isOperator("(") {
		f.arguments, err = p.arguments()
	}
	return f, err
}

func (p *parser) test(value expr) (expr, error) {
	n := &testExpr{value: value, negated: p.takeName("not")}
	t := p.peek()
	if t.kind != tokenName {
		return nil, p.errorf("expected the name of a test")
	}
	p.at++
	n.name, n.line = t.text, t.line
	next := p.peek()
	switch {
	case p.isName("is"):
		return nil, p.errorf("tests cannot be chained with is")
	case p.isOperator("("):
		var err error
		n.arguments, err = p.arguments()
		return n, err
	case next.kind == tokenOperator && (next.text == "[" || next.text == "{"), next.kind == tokenString, next.kind == tokenInteger, next.kind == tokenFloat,
		next.kind == tokenName && !slices.Contains([]string{"else", "or", "and", "is", "if", "in", "not", "recursive"}, next.text):
		argument, err := p.primary()
		if err == nil {
			argument, err = p.postfix(argument)
		}
		n.arguments.positional = []expr{argument}
		return n, err
	}
	return n, nil
}
