package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/moepool/moepool/internal/bytesize"
)

// EventKind is what has happened.
type EventKind string

// The kinds.
const (
	EventJoined   EventKind = "joined"   // a worker has registered
	EventBack     EventKind = "back"     // a worker of the placement has registered again
	EventLost     EventKind = "lost"     // a worker can't be used any more
	EventFailed   EventKind = "failed"   // a worker can't load what it was given
	EventRefused  EventKind = "refused"  // a worker can't take part
	EventDraining EventKind = "draining" // a worker leaves, its experts move first
	EventDrained  EventKind = "drained"  // it has left
	EventPlan     EventKind = "plan"     // a plan is prepared, or is not possible
	EventActive   EventKind = "active"   // a plan is active
	EventGivenUp  EventKind = "given-up" // a plan will not become active
	EventCommit   EventKind = "commit"   // a plan could not be committed yet
)

// Event is something that has happened to workers or plans.
type Event struct {
	Time   time.Time `json:"time"`
	Kind   EventKind `json:"kind"`
	Worker string    `json:"worker,omitempty"`
	Epoch  uint64    `json:"epoch,omitempty"`       // of the plan that it is about
	Moved  int64     `json:"moved_bytes,omitempty"` // of a plan: bytes that workers have to load for it
	Text   string    `json:"text"`
}

// Totals count since the start.
type Totals struct {
	Placements uint64 `json:"placements"`   // that became active
	GivenUp    uint64 `json:"given_up"`     // that were prepared and did not
	Moved      int64  `json:"moved_bytes"`  // that workers had to load for those that became active
	Lost       uint64 `json:"lost_workers"` // how often a worker could not be used any more that was not asked to leave
}

func (t *Totals) count(kind EventKind) {
	switch kind {
	case EventActive:
		t.Placements++
	case EventGivenUp:
		t.GivenUp++
	case EventLost:
		t.Lost++
	}
}

// maxEvents is how many are remembered.
const maxEvents = 200

// events are the latest ones, oldest first.
type events []Event

func (e *events) add(event Event) {
	if len(*e) >= maxEvents {
		*e = slices.Delete(*e, 0, len(*e)-maxEvents+1)
	}
	*e = append(*e, event)
}

// note remembers an action that is an event, and gives the line for the log; callers hold mu.
func (m *Members) note(a *action) (line string) {
	event := Event{Kind: a.event, Worker: a.worker, Text: a.reason}
	switch {
	case a.worker != "":
		line = fmt.Sprintf("worker %s %s", a.worker, a.reason)
	default:
		line = a.reason
	}
	if a.plan != nil {
		event.Epoch = a.plan.Epoch
	}
	switch a.kind {
	case actLost:
		if line = fmt.Sprintf("worker %s can't be used any more: %s", a.worker, a.reason); a.event == EventDrained {
			line = fmt.Sprintf("worker %s has left (%s)", a.worker, a.reason)
		}
	case actRefuse:
		line = fmt.Sprintf("worker %s is refused: %s", a.worker, a.reason)
	case actActivate:
		line = fmt.Sprintf("placement %d is active (%s)", a.plan.Epoch, a.reason)
	case actLog:
	default:
		return ""
	}
	switch a.event {
	case EventPlan:
		if a.plan != nil {
			_, event.Moved = a.plan.Moved(m.o.Model, a.pending.before)
			line = fmt.Sprintf("placement %d is prepared on %d worker(s), %s to load: %s", a.plan.Epoch, len(a.plan.Owned), bytesize.Text(event.Moved), a.reason)
		}
	case EventGivenUp:
		line = fmt.Sprintf("placement %d is given up: %s", a.plan.Epoch, a.reason)
	case EventCommit:
		line = fmt.Sprintf("placement %d can't be committed yet: %s", a.plan.Epoch, a.reason)
	}
	m.totals.count(a.event)
	if a.event != "" {
		event.Time = time.Now()
		m.events.add(event)
	}
	return line
}
