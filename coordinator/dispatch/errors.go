package dispatch

import "fmt"

// WorkerError says that a step failed because of one worker: it is gone, silent, or refused.
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
