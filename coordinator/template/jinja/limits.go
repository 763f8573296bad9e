package jinja

import "errors"

// ErrLimit is wrapped by the errors of a template that asks for too much.
var ErrLimit = errors.New("template limit exceeded")

// Limits of parsing, and of values in general.
const (
	maxSource     = 1 << 20 // bytes of a template
	maxNesting    = 150     // of blocks and of expressions in a template
	maxValueDepth = 500     // of lists and dicts in each other
	maxCalls      = 100     // of macros in each other
	maxString     = 64 << 20
)

// Limits bound one rendering.
type Limits struct {
	// Work is the budget of steps and of bytes that are produced, in bytes: a node of the template that is evaluated counts as
	// stepCost bytes. 0 is DefaultWork.
	Work int64
}

// DefaultWork lets a template produce 64 MiB, or take a million steps: some tenths of a second. Give more for long inputs.
const DefaultWork = 64 << 20

const stepCost = 64
