package worker

import "context"

// Run is the worker's life: it returns nil after Drain, after the end of ctx or of its parent, and an error when it can't start
// or was refused.
func Run(ctx context.Context, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	panic("skeleton")
}
