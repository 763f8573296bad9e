package jinja

import "slices"

func (p *parser) peek() token {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	return token{kind: tokenEnd, line: p.line}
}

func (p *parser) isOperator(text string) bool {
	t := p.peek()
	return t.kind == tokenOperator && t.text == text
}

func (p *parser) isName(text string) bool {
	t := p.peek()
	return t.kind == tokenName && t.text == text
}

func (p *parser) takeOperator(text string) bool {
	ok := p.isOperator(text)
	if ok {
		p.at++
	}
	return ok
}

func (p *parser) takeName(text string) bool {
	ok := p.isName(text)
	if ok {
		p.at++
	}
	return ok
}

// takeOneOf takes one of the operators; "" if there is none.
func (p *parser) takeOneOf(operators ...string) string {
	if t := p.peek(); t.kind == tokenOperator && slices.Contains(operators, t.text) {
		p.at++
		return t.text
	}
	return ""
}

// finish checks that nothing is left in the tag.
func (p *parser) finish() error {
	if t := p.peek(); t.kind != tokenEnd {
		p.line = t.line
		return p.errorf("unexpected %q", t.text)
	}
	return nil
}

// tuple reads an expression, or several with commas between them. Without conditional, a conditional expression ends it (so that
// the if of a for loop is left alone).
func (p *parser) tuple(conditional bool) (expr, error) {
	read := p.expression
	if !conditional {
		read = p.or
	}
	first, err := read()
	if err != nil || !p.isOperator(",") {
		return first, err
	}
	l := &listExpr{items: []expr{first}, tuple: true}
	for p.takeOperator(",") {
		if t := p.peek(); t.kind == tokenEnd || p.isOperator(")") || p.isOperator("=") || p.isName("recursive") {
			break
		}
		e, err := read()
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, e)
	}
	return l, nil
}

func (p *parser) expression() (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.or()
	for err == nil && p.takeName("if") {
		c := &conditionExpr{then: e}
		if c.condition, err = p.or(); err != nil {
			return nil, err
		}
		if p.takeName("else") {
			if c.otherwise, err = p.expression(); err != nil {
				return nil, err
			}
		}
		e = c
	}
	return e, err
}

func (p *parser) or() (expr, error) { return p.logic("or", p.and) }

func (p *parser) and() (expr, error) { return p.logic("and", p.not) }

func (p *parser) logic(word string, operand func() (expr, error)) (expr, error) {
	left, err := operand()
	if err != nil {
		return nil, err
	}
	// A chain is one node, not a deep tree; so are those of binary operators.
	operands := []expr{left}
	for p.takeName(word) {
		right, err := operand()
		if err != nil {
			return nil, err
		}
		operands = append(operands, right)
	}
	if len(operands) == 1 {
		return left, nil
	}
	return &logicExpr{operands: operands, and: word == "and"}, nil
}

func (p *parser) not() (expr, error) {
	if !p.takeName("not") {
		return p.comparison()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.not()
	return &notExpr{e}, err
}

func (p *parser) comparison() (expr, error) {
	line := p.peek().line
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{first: first, line: line}
	for {
		operator := p.takeOneOf("==", "!=", "<", "<=", ">", ">=")
		switch {
		case operator != "":
		case p.takeName("in"):
			operator = "in"
		case p.isName("not") && p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind == tokenName && p.tokens[p.at+1].text == "in":
			p.at += 2
			operator = "not in"
		default:
			if len(c.others) == 0 {
				return first, nil
			}
			return c, nil
		}
		other, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.operators, c.others = append(c.operators, operator), append(c.others, other)
	}
}

// binary reads operands with left-associative operators between them.
func (p *parser) binary(operand func() (expr, error), operators ...string) (expr, error) {
	e, err := operand()
	if err != nil {
		return nil, err
	}
	b := &binaryExpr{first: e, line: p.peek().line}
	for {
		operator := p.takeOneOf(operators...)
		if operator == "" {
			break
		}
		right, err := operand()
		if err != nil {
			return nil, err
		}
		b.operators, b.others = append(b.operators, operator), append(b.others, right)
	}
	if len(b.others) == 0 {
		return e, nil
	}
	return b, nil
}

func (p *parser) sum() (expr, error) { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() (expr, error) {
	e, err := p.product()
	if err != nil || !p.isOperator("~") {
		return e, err
	}
	c := &concatExpr{parts: []expr{e}}
	for p.takeOperator("~") {
		e, err := p.product()
		if err != nil {
			return nil, err
		}
		c.parts = append(c.parts, e)
	}
	return c, nil
}

func (p *parser) product() (expr, error) { return p.binary(p.power, "*", "/", "//", "%") }

func (p *parser) power() (expr, error) {
	return p.binary(func() (expr, error) { return p.unary(true) }, "**")
}

func (p *parser) unary(filters bool) (expr, error) {
	line := p.peek().line
	var e expr
	var err error
	if operator := p.takeOneOf("-", "+"); operator != "" {
		if err := p.enter(); err != nil {
			return nil, err
		}
		e, err = p.unary(false)
		p.leave()
		e = &unaryExpr{operator, e, line}
	} else if e, err = p.primary(); err == nil {
		e, err = p.postfix(e)
	}
	if err != nil || !filters {
		return e, err
	}
	return p.filters(e)
}

func (p *parser) primary() (expr, error) {
	t := p.peek()
	p.at++
	switch t.kind {
	case tokenName:
		switch t.text {
		case "true", "True":
			return &literal{true}, nil
		case "false", "False":
			return &literal{false}, nil
		case "none", "None":
			return &literal{nil}, nil
		}
		p.mention(t.text)
		return &nameExpr{t.text, t.line}, nil
	case tokenString:
		text := t.text
		for p.peek().kind == tokenString {
			text += p.peek().text
			p.at++
		}
		return &literal{text}, nil
	case tokenInteger, tokenFloat:
		return &literal{t.value}, nil
	case tokenOperator:
		switch t.text {
		case "(":
			return p.parenthesis()
		case "[":
			items, err := p.list("]")
			return &listExpr{items: items}, err
		case "{":
			return p.dict()
		}
	case tokenEnd:
		p.at--
		return nil, p.errorf("expected an expression")
	}
	p.line = t.line
	return nil, p.errorf("unexpected %q", t.text)
}

// mention notes the names by which a macro asks for what it has no parameters for.
func (p *parser) mention(name string) {
	if p.macro == nil {
		return
	}
	switch name {
	case "varargs":
		p.macro.varargs = true
	case "kwargs":
		p.macro.kwargs = true
	case "caller":
		p.macro.caller = true
	}
}

func (p *parser) parenthesis() (expr, error) {
	if p.takeOperator(")") {
		return &listExpr{tuple: true}, nil
	}
	e, err := p.tuple(true)
	if err == nil && !p.takeOperator(")") {
		err = p.errorf(`expected ")"`)
	}
	return e, err
}

// list reads expressions up to the closing bracket.
func (p *parser) list(end string) ([]expr, error) {
	var items []expr
	for !p.takeOperator(end) {
		if len(items) > 0 {
			if !p.takeOperator(",") {
				return nil, p.errorf(`expected "," or %q`, end)
			}
			if p.takeOperator(end) {
				break
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return items, nil
}

func (p *parser) dict() (expr, error) {
	d := &dictExpr{}
	for !p.takeOperator("}") {
		if len(d.keys) > 0 {
			if !p.takeOperator(",") {
				return nil, p.errorf(`expected "," or "}"`)
			}
			if p.takeOperator("}") {
				break
			}
		}
		key, err := p.expression()
		if err != nil {
			return nil, err
		}
		if !p.takeOperator(":") {
			return nil, p.errorf(`expected ":"`)
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, key), append(d.values, value)
	}
	return d, nil
}
