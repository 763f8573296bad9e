package transport

import (
	"errors"
	"fmt"
)

// ErrorCode is why a worker refused or failed.
type ErrorCode string

// The codes.
const (
	CodeMalformed  ErrorCode = "malformed"   // can't be decoded, sizes disagree
	CodeVersion    ErrorCode = "version"     // another protocol version
	CodeWrongEpoch ErrorCode = "wrong-epoch" // another placement
	CodeStaleTerm  ErrorCode = "stale-term"  // an old leader
	CodeNotOwned   ErrorCode = "not-owned"   // an expert part that the worker does not hold
	CodeNotReady   ErrorCode = "not-ready"
	CodeRefused    ErrorCode = "refused" // handshake
	CodeBusy       ErrorCode = "busy"    // too much work waits at the worker
	CodeInternal   ErrorCode = "internal"
)

// ErrNoWorker says that the worker's process or connection is gone.
var ErrNoWorker = errors.New("no worker listens on the subject")

// ErrNoCoordinator says that nobody answers generate requests.
var ErrNoCoordinator = errors.New("no coordinator answers on this cluster")

// ErrConnectionLost answers what was under way over NATS when this side's connection was lost: its answer may be, too.
var ErrConnectionLost = errors.New("the connection to NATS was lost")

// ErrClosed says that this end was closed.
var ErrClosed = errors.New("transport is closed")

// RemoteError is an error that the other side sent.
type RemoteError struct {
	Worker  string
	Code    ErrorCode
	Message string
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("worker %s: %s: %s", e.Worker, e.Code, e.Message)
}
