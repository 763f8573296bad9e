package transport

import "context"

// Handler is what a worker does. Errors that are not *RemoteError are sent with CodeInternal.
type Handler interface {
	// Work computes; while it runs, progress is reported each second. ctx ends with the responder. The result may be reused by
	// the handler after the next call of Work.
	Work(ctx context.Context, w *Work) (*Result, error)
	Assign(ctx context.Context, m *Assign) error
	Refused(reason string)
	Drain()
}

// Responder is a worker's end: it receives work and control messages and sends beats.
type Responder struct{}

// NewResponder subscribes to the worker's subjects. instance is the beats' Instance: messages addressed to another instance
// of the same id are not taken.
func NewResponder(c *Conn, cluster, worker, instance string, h Handler) (*Responder, error) {
	panic("skeleton")
}

// Beat publishes a beat.
func (r *Responder) Beat(b *Beat) error { panic("skeleton") }

// CoordinatorAlive tells how long ago the coordinator was last heard (its own beat, work or control), for rejoining.
func (r *Responder) CoordinatorSilence() (seconds float64) { panic("skeleton") }

// Drain stops taking new work and waits for the running, until ctx ends.
func (r *Responder) Drain(ctx context.Context) error { panic("skeleton") }

// Close unsubscribes and ends its goroutines.
func (r *Responder) Close() { panic("skeleton") }

// Malformed counts messages that could not be decoded.
func (r *Responder) Malformed() uint64 { panic("skeleton") }
