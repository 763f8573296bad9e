package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// Function makes a value that a template can call, with positional arguments only.
func Function(name string, call func(arguments []Value) (Value, error)) Value {
	return &function{name: name, call: func(_ *frame, a arguments) (Value, error) {
		if len(a.names) > 0 {
			return nil, fmt.Errorf("%s takes no keyword argument %q", name, a.names[0])
		}
		return call(a.positional)
	}}
}

// Render writes the template with the given variables. They are not changed, and may be shared between goroutines.
func (t *Template) Render(variables map[string]Value, limits Limits) (text string, err error) {
	work := limits.Work
	if work <= 0 {
		work = DefaultWork
	}
	// The interpreter has no panics on purpose; one that it has by mistake must not end the process.
	defer func() {
		if r := recover(); r != nil {
			text, err = "", fmt.Errorf("template: internal error: %v", r)
		}
	}()
	r := &renderer{variables: variables, work: work}
	f := &frame{r: r, out: &strings.Builder{}}
	if err := f.exec(t.body); err != nil {
		return "", err
	}
	return f.out.String(), nil
}

// renderer is what one rendering has in all its frames.
type renderer struct {
	variables map[string]Value
	work      int64 // what is left of the budget
	calls     int   // macros that are running in each other
}

// frame is a scope: the whole template, an iteration of a loop, a macro's body.
type frame struct {
	r      *renderer
	parent *frame
	names  map[string]Value
	out    *strings.Builder
}

// inner is a scope inside f that writes to the same place.
func (f *frame) inner() *frame { return &frame{r: f.r, parent: f, out: f.out} }

// capture is a scope inside f whose text is kept apart.
func (f *frame) capture() *frame { return &frame{r: f.r, parent: f, out: &strings.Builder{}} }

func (f *frame) set(name string, v Value) {
	if f.names == nil {
		f.names = map[string]Value{}
	}
	f.names[name] = v
}

func (f *frame) lookup(name string) (Value, bool) {
	for s := f; s != nil; s = s.parent {
		if v, ok := s.names[name]; ok {
			return v, true
		}
	}
	if v, ok := f.r.variables[name]; ok {
		return v, true
	}
	v, ok := globals[name]
	return v, ok
}

// step takes the cost of evaluating a node out of the budget.
func (f *frame) step() error { return f.produce(stepCost) }

// produce takes n bytes that are going to be made out of the budget.
func (f *frame) produce(n int) error {
	if f.r.work -= int64(n); f.r.work < 0 {
		return fmt.Errorf("%w: the template takes too long or makes too much text", ErrLimit)
	}
	return nil
}

func (f *frame) write(s string) error {
	if err := f.produce(len(s)); err != nil {
		return err
	}
	f.out.WriteString(s)
	return nil
}

// str is str(v) within the budget.
func (f *frame) str(v Value) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	s, err := str(v, int(min(f.r.work, maxString)))
	if err == nil {
		err = f.produce(len(s))
	}
	return s, err
}

func (f *frame) exec(body []node) error {
	for _, n := range body {
		if err := f.step(); err != nil {
			return err
		}
		if err := n.exec(f); err != nil {
			return err
		}
	}
	return nil
}

// lineError is an error with the line where it happened; only the innermost line is told.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

func atLine(line int, err error) error {
	var known *lineError
	if err == nil || errors.As(err, &known) || errors.Is(err, errBreak) || errors.Is(err, errContinue) {
		return err
	}
	return &lineError{line, err}
}
