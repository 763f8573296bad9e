package dispatch

import (
	"fmt"
	"strings"
	"time"
)

// WorkerError says that one worker can't be used for a layer: it is gone, silent, or refused.
type WorkerError struct {
	Worker string
	Layer  int
	Reason string
	Err    error // transport.ErrNoWorker, *transport.RemoteError, ...; nil for silence
}

func (e *WorkerError) Error() string {
	return fmt.Sprintf("worker %s: %s", e.Worker, e.Reason) // the engine says in which layer
}

func (e *WorkerError) Unwrap() error { return e.Err }

// MissingError says that some of a layer's chosen experts can't be computed, since no worker that can be used holds them.
type MissingError struct {
	Layer          int
	Missing, Total int            // expert parts that are missing, and that the layer has
	Parts          int            // of each expert
	Workers        []*WorkerError // what is known of those that hold them, in order of ids
	Policy         OnMissing
	Limit          time.Duration // that was waited, with WaitMissing
}

func (e *MissingError) Error() string {
	if e.Policy == FailMissing {
		return e.state()
	}
	return fmt.Sprintf("%s, and none came within %s (--missing-deadline)", e.state(), e.Limit)
}

// state says what is missing and why.
func (e *MissingError) state() string {
	what := "experts"
	if e.Parts > 1 {
		what = "expert parts"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%d of %d %s of layer %d have no worker", e.Missing, e.Total, what, e.Layer)
	for i, w := range e.Workers {
		separator := "; "
		if i == 0 {
			separator = " ("
		}
		s.WriteString(separator + w.Error())
	}
	if len(e.Workers) > 0 {
		s.WriteString(")")
	}
	return s.String()
}

// Unwrap gives the workers' errors.
func (e *MissingError) Unwrap() []error {
	errs := make([]error, len(e.Workers))
	for i, w := range e.Workers {
		errs[i] = w
	}
	return errs
}

// OnMissing is what is done when no worker that can be used holds an expert that was chosen.
type OnMissing uint8

// What can be done.
const (
	// WaitMissing waits for such a worker until a deadline; then the step fails.
	WaitMissing OnMissing = iota
	// FailMissing fails the step at once.
	FailMissing
	// DropMissing computes the layer without these experts.
	DropMissing
)

var onMissingNames = [...]string{"wait", "fail", "drop"}

func (o OnMissing) String() string { return onMissingNames[o] }

// ParseOnMissing reads wait, fail or drop.
func ParseOnMissing(s string) (OnMissing, error) {
	for i, name := range onMissingNames {
		if s == name {
			return OnMissing(i), nil
		}
	}
	return 0, fmt.Errorf("%q is not valid; valid are %s", s, strings.Join(onMissingNames[:], ", "))
}
