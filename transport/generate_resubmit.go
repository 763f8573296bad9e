package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// GenerateOptions say how long a client goes on.
type GenerateOptions struct {
	// Timeout is the most time that the whole answer may take; 0: any. The coordinator knows it, too, and ends the answer then.
	Timeout time.Duration
	// Wait is how long the request waits for a coordinator to be there at all; later on, one that is lost is waited for until Timeout.
	Wait time.Duration
	// Lost is told before the request is submitted again: why, and after how many tokens of the answer. May be nil.
	Lost func(why error, tokens int)
}

const (
	// deadlineGrace is how much longer than the coordinator, which says more, the client waits: as long as it may be silent.
	deadlineGrace = SilenceLimit
	// resubmitPause lies between two submissions.
	resubmitPause = 250 * time.Millisecond
	// fruitlessLimit is how many coordinators in a row may take a request and be lost without a new token: it may be the request's fault.
	fruitlessLimit = 5
)

// Generate is the client; event is called for each event that says something, the last one has Done, and its Error is returned
// as *GenerateError too. When the coordinator is lost (it is silent, says that it stops, or events are), the request is submitted again
// with the tokens so far, to whichever coordinator answers, and the answer goes on where it was: resubmissions counts that. ctx ended, or
// an error of event: a cancel is sent. ErrNoCoordinator: nobody answers. *DeadlineError: o.Timeout has passed.
func Generate(ctx context.Context, c *Conn, cluster string, q *GenerateRequest, o GenerateOptions, event func(*GenerateEvent) error) (resubmissions int, err error) {
	if err := checkName("cluster name", cluster); err != nil {
		return 0, err
	}
	if o.Timeout > maxTimeout {
		return 0, fmt.Errorf("a timeout of %s is above the limit %s", o.Timeout, maxTimeout)
	}
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout+deadlineGrace, &DeadlineError{o.Timeout})
		defer cancel()
	}
	begin := time.Now()
	request := *q
	request.Generated = slices.Clone(q.Generated)
	waiting, fruitless, passOver := true, 0, "" // waiting: no coordinator was there yet
	for {
		if o.Timeout > 0 {
			if request.Timeout = o.Timeout - time.Since(begin); request.Timeout <= 0 {
				return resubmissions, &DeadlineError{o.Timeout}
			}
		}
		before := len(request.Generated)
		err := newAttempt(c, cluster, passOver).run(ctx, &request, func(e *GenerateEvent) error {
			request.Generated = append(request.Generated, e.Tokens...)
			return event(e)
		})
		var lost *lostError
		if !errors.As(err, &lost) {
			return resubmissions, err
		}
		passOver = lost.instance
		if lost.taken {
			waiting = false
			if fruitless++; len(request.Generated) > before {
				fruitless = 0
			}
			if fruitless == fruitlessLimit {
				return resubmissions, fmt.Errorf("%d times in a row a coordinator was lost that had this request and gave no token of it; the last time: %w", fruitless, lost.cause)
			}
			resubmissions++
			if o.Lost != nil {
				o.Lost(lost.cause, len(request.Generated)-len(q.Generated))
			}
		} else if waiting && time.Since(begin) >= o.Wait {
			return resubmissions, lost.cause
		}
		select {
		case <-ctx.Done():
			return resubmissions, context.Cause(ctx)
		case <-time.After(resubmitPause):
		}
	}
}
