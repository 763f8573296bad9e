package jinja

// targets reads one target or several with commas between them.
func (p *parser) targets() (target, error) {
	first, err := p.target()
	if err != nil || !p.isOperator(",") {
		return first, err
	}
	t := target{several: []target{first}}
	for p.takeOperator(",") {
		if p.peek().kind != tokenName && !p.isOperator("(") || p.isName("in") {
			break
		}
		next, err := p.target()
		if err != nil {
			return t, err
		}
		t.several = append(t.several, next)
	}
	return t, nil
}

func (p *parser) target() (target, error) {
	if err := p.enter(); err != nil {
		return target{}, err
	}
	defer p.leave()
	if p.takeOperator("(") {
		t, err := p.targets()
		if err == nil && !p.takeOperator(")") {
			err = p.errorf(`expected ")"`)
		}
		if t.several == nil {
			t = target{several: []target{t}}
		}
		return t, err
	}
	name := p.peek()
	if name.kind != tokenName {
		return target{}, p.errorf("expected a name to assign to")
	}
	switch name.text {
	case "true", "false", "none", "True", "False", "None":
		return target{}, p.errorf("cannot assign to %s", name.text)
	}
	p.at++
	t := target{name: name.text}
	if p.takeOperator(".") {
		attribute := p.peek()
		if attribute.kind != tokenName {
			return t, p.errorf("expected the name of an attribute")
		}
		p.at++
		t.attribute = attribute.text
	}
	return t, nil
}
