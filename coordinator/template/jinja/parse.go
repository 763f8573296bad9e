package jinja

import (
	"errors"
	"fmt"
	"slices"
)

// Template is a parsed template; it may be rendered by many goroutines at once.
type Template struct {
	body []node
}

// Parse reads a template. Its errors name the line.
func Parse(source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("%w: template has %d bytes (at most %d)", ErrLimit, len(source), maxSource)
	}
	sections, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{sections: sections}
	body, end, err := p.block()
	if err != nil {
		return nil, err
	}
	if end != "" {
		return nil, p.errorf("unexpected %q", end)
	}
	return &Template{body}, nil
}

// parser reads sections into nodes. tokens are those of the section at hand.
type parser struct {
	sections []section
	next     int
	tokens   []token
	at       int
	line     int
	depth    int // of blocks and expressions
	loops    int // loops around
	macro    *macroNode
}

func (p *parser) errorf(format string, a ...any) error {
	return fmt.Errorf("line %d: %w", p.line, fmt.Errorf(format, a...))
}

func (p *parser) enter() error {
	if p.depth++; p.depth > maxNesting {
		return p.errorf("%w: nested deeper than %d", ErrLimit, maxNesting)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// block reads nodes up to a statement with one of the names, whose name it takes and gives back, or to the end ("").
func (p *parser) block(until ...string) (body []node, end string, err error) {
	if err := p.enter(); err != nil {
		return nil, "", err
	}
	defer p.leave()
	for p.next < len(p.sections) {
		s := p.sections[p.next]
		p.next++
		p.tokens, p.at, p.line = s.tokens, 0, s.line
		switch s.kind {
		case sectionText:
			body = append(body, &textNode{s.text})
		case sectionOutput:
			v, err := p.tuple(true)
			if err != nil {
				return nil, "", err
			}
			body = append(body, &outputNode{v, s.line})
			if err := p.finish(); err != nil {
				return nil, "", err
			}
		case sectionStatement:
			name := p.peek()
			if name.kind != tokenName {
				return nil, "", p.errorf("a tag must start with its name")
			}
			p.at++
			if slices.Contains(until, name.text) {
				return body, name.text, nil
			}
			n, err := p.statement(name.text)
			if err != nil {
				return nil, "", err
			}
			body = append(body, n)
		}
	}
	if len(until) > 0 {
		return nil, "", p.errorf("template ends before %q", until[len(until)-1])
	}
	return body, "", nil
}

// body reads a block that ends with the statement end, which has nothing behind its name.
func (p *parser) body(end string) ([]node, error) {
	body, _, err := p.block(end)
	if err != nil {
		return nil, err
	}
	return body, p.finish()
}

func (p *parser) statement(name string) (node, error) {
	switch name {
	case "if":
		return p.parseIf()
	case "for":
		return p.parseFor()
	case "set":
		return p.parseSet()
	case "macro":
		return p.parseMacro()
	case "call":
		return p.parseCall()
	case "filter":
		return p.parseFilter()
	case "with":
		return p.parseWith()
	case "generation": // marks the assistant's part for training
		if err := p.finish(); err != nil {
			return nil, err
		}
		body, err := p.body("endgeneration")
		return &scopeNode{body}, err
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.errorf("%s outside of a loop", name)
		}
		control := errContinue
		if name == "break" {
			control = errBreak
		}
		return &controlNode{control}, p.finish()
	}
	return nil, p.errorf("statement %q is not supported (known: if, for, set, macro, call, filter, with, generation, break, continue, raw)", name)
}

var (
	errBreak    = errors.New("break")
	errContinue = errors.New("continue")
)

func (p *parser) parseIf() (node, error) {
	n := &ifNode{line: p.line}
	for {
		condition, err := p.tuple(false)
		if err != nil {
			return nil, err
		}
		if err := p.finish(); err != nil {
			return nil, err
		}
		body, end, err := p.block("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		n.conditions, n.bodies = append(n.conditions, condition), append(n.bodies, body)
		switch end {
		case "elif":
			continue
		case "else":
			if err := p.finish(); err != nil {
				return nil, err
			}
			n.otherwise, err = p.body("endif")
			return n, err
		}
		return n, p.finish()
	}
}

func (p *parser) parseFor() (node, error) {
	n := &forNode{line: p.line}
	var err error
	if n.target, err = p.targets(); err != nil {
		return nil, err
	}
	if !p.takeName("in") {
		return nil, p.errorf(`expected "in"`)
	}
	if n.over, err = p.tuple(false); err != nil {
		return nil, err
	}
	if p.takeName("if") {
		if n.filter, err = p.expression(); err != nil {
			return nil, err
		}
	}
	n.recursive = p.takeName("recursive")
	if err := p.finish(); err != nil {
		return nil, err
	}
	p.loops++
	body, end, err := p.block("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	n.body = body
	if err := p.finish(); err != nil || end == "endfor" {
		return n, err
	}
	n.otherwise, err = p.body("endfor")
	return n, err
}

func (p *parser) parseSet() (node, error) {
	line := p.line
	t, err := p.targets()
	if err != nil {
		return nil, err
	}
	if p.takeOperator("=") {
		value, err := p.tuple(true)
		if err != nil {
			return nil, err
		}
		return &setNode{t, value, line}, p.finish()
	}
	n := &setBlockNode{target: t, line: line}
	if p.isOperator("|") {
		if n.filters, err = p.filters(blockValue{}); err != nil {
			return nil, err
		}
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	n.body, err = p.body("endset")
	return n, err
}

func (p *parser) parseFilter() (node, error) {
	n := &setBlockNode{line: p.line}
	first, err := p.filter(blockValue{})
	if err != nil {
		return nil, err
	}
	if n.filters, err = p.filters(first); err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	n.body, err = p.body("endfilter")
	return n, err
}

func (p *parser) parseMacro() (node, error) {
	n := &macroNode{line: p.line}
	name := p.peek()
	if name.kind != tokenName {
		return nil, p.errorf("expected the name of the macro")
	}
	p.at++
	n.name = name.text
	if err := p.parameters(n); err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return n, p.macroBody(n, "endmacro")
}

// macroBody reads the body of a macro, which stands outside of the loops and macros around it.
func (p *parser) macroBody(n *macroNode, end string) (err error) {
	loops, macro := p.loops, p.macro
	p.loops, p.macro = 0, n
	n.body, err = p.body(end)
	p.loops, p.macro = loops, macro
	return err
}

// parameters reads a macro's parameters in parentheses.
func (p *parser) parameters(n *macroNode) error {
	if !p.takeOperator("(") {
		return p.errorf(`expected "("`)
	}
	for !p.takeOperator(")") {
		if len(n.parameters) > 0 && !p.takeOperator(",") {
			return p.errorf(`expected "," or ")"`)
		}
		name := p.peek()
		if name.kind != tokenName {
			return p.errorf("expected the name of a parameter")
		}
		p.at++
		parameter := parameter{name: name.text}
		if p.takeOperator("=") {
			var err error
			if parameter.fallback, err = p.expression(); err != nil {
				return err
			}
		}
		n.parameters = append(n.parameters, parameter)
	}
	return nil
}

func (p *parser) parseCall() (node, error) {
	n := &callNode{macroNode: macroNode{name: "caller", line: p.line}}
	if p.isOperator("(") {
		if err := p.parameters(&n.macroNode); err != nil {
			return nil, err
		}
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callExpr)
	if !ok {
		return nil, p.errorf("expected a call")
	}
	n.call = call
	if err := p.finish(); err != nil {
		return nil, err
	}
	return n, p.macroBody(&n.macroNode, "endcall")
}

func (p *parser) parseWith() (node, error) {
	n := &withNode{line: p.line}
	for p.at < len(p.tokens) {
		if len(n.targets) > 0 && !p.takeOperator(",") {
			return nil, p.errorf(`expected ","`)
		}
		t, err := p.target()
		if err != nil {
			return nil, err
		}
		if !p.takeOperator("=") {
			return nil, p.errorf(`expected "="`)
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		n.targets, n.values = append(n.targets, t), append(n.values, v)
	}
	var err error
	n.body, err = p.body("endwith")
	return n, err
}
