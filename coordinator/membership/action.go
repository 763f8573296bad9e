package membership

import "github.com/moepool/moepool/coordinator/placement"

// actionKind is what the table wants done.
type actionKind uint8

const (
	actAddress  actionKind = iota + 1 // work for the id goes to instance from now on
	actRefuse                         // tell instance why; also log it
	actCompute                        // compute the plan of pending, then tell computed
	actAssign                         // send the worker its part of plan
	actCommit                         // ask whether the plan of pending may become active, then tell committed
	actActivate                       // plan is the active one now
	actDrain                          // tell the worker that it may leave
	actLost                           // the worker can't be used any more, for reason
	actLog                            // reason, for a person
)

type action struct {
	kind     actionKind
	event    EventKind // "" if it is none
	worker   string
	instance string
	reason   string
	plan     *placement.Plan
	pending  *pending
}
