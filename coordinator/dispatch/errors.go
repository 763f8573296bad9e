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
	return fmt.Sprintf("layer %d: worker %s: %s", e.Layer, e.Worker, e.Reason)
}

func (e *WorkerError) Unwrap() error { return e.Err }
