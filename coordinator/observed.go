package coordinator

import (
	"slices"
	"sync"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/membership"
)

// observer counts which experts the rows of a step were routed to, for the placement. Its memory is reused.
type observer struct {
	mu   sync.Mutex
	rows []uint32 // by expert
}

// observe tells members of a layer's choices; experts is how many there are.
func (o *observer) observe(members *membership.Members, call *engine.ExpertCall, experts int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows = slices.Grow(o.rows[:0], experts)[:experts]
	clear(o.rows)
	for i := range call.Choices {
		for _, expert := range call.Choices[i].Experts {
			if int(expert) < experts { // else the call has failed
				o.rows[expert]++
			}
		}
	}
	members.ObservePairs(call.Layer, call.Choices)
	members.Observe(call.Layer, o.rows)
}
