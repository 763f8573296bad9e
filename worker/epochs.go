package worker

import (
	"slices"

	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
)

// epochs is what a worker is assigned and what it holds: values in, decisions out. It knows no clock, no threads and no files; the shards
// are only passed on.
//
// An assignment is prepared beside what is served. Once loaded, both are served. Coordinators' beats say which epoch is active: earlier
// ones aren't asked for any more, and those between it and the newest assignment never will be.
type epochs struct {
	assigned *transport.Assign // the newest assignment; nil: free
	state    transport.WorkerState
	failure  string      // why it is failed
	held     []heldEpoch // served ones ascending by epoch, after those of former coordinators
	dropped  bool        // something is not held any more, and its slots are to be given back

	active uint64 // as the assigning coordinator's last beat said
	beats  int    // of it that said so, since the newest assignment
}

// heldEpoch is one epoch's expert parts in memory. Two epochs may share their shards.
type heldEpoch struct {
	epoch  uint64
	layers []transport.LayerParts
	shards *shard.Shards
	former bool // of another coordinator or term: not served, but an equal assignment takes it up
}

const (
	// steadyBeats of one active epoch settle that other epochs are done with: a beat may have been on its way when the assignment was
	// sent, the second one came after it; and requests on their way have arrived by then.
	steadyBeats = 2
	// spareBeats is how many beats a worker without a place in the active plan keeps what it holds: it may get one again.
	spareBeats = 30
)

// assign takes an assignment that supersedes. load: its expert parts are not held as a whole yet.
func (e *epochs) assign(m *transport.Assign) (load bool) {
	if now := e.assigned; now == nil || now.Coordinator != m.Coordinator || now.Term != m.Term {
		for i := range e.held {
			e.held[i].former = true
		}
		e.active = 0
	}
	e.assigned, e.failure, e.beats = m, "", 0
	at := slices.IndexFunc(e.held, func(h heldEpoch) bool { return equalLayers(h.layers, m.Layers) })
	if at < 0 {
		e.state = transport.StateLoading
		return true
	}
	h := e.held[at]
	if h.former {
		e.held = slices.Delete(e.held, at, at+1)
	}
	e.serve(heldEpoch{epoch: m.Epoch, layers: m.Layers, shards: h.shards})
	return false
}

// holds says whether these expert parts are held as a whole.
func (e *epochs) holds(layers []transport.LayerParts) bool {
	return slices.ContainsFunc(e.held, func(h heldEpoch) bool { return equalLayers(h.layers, layers) })
}

// loaded takes the end of a load of some expert parts. False: they are not what is assigned now, and are not held.
func (e *epochs) loaded(layers []transport.LayerParts, shards *shard.Shards, err error) bool {
	switch {
	case e.assigned == nil && err == nil: // its coordinator has gone
		e.held = append(e.held, heldEpoch{layers: layers, shards: shards, former: true})
		return true
	case e.assigned == nil || e.state != transport.StateLoading || !equalLayers(e.assigned.Layers, layers):
		return false
	case err != nil:
		e.state, e.failure = transport.StateFailed, err.Error()
	default:
		e.serve(heldEpoch{epoch: e.assigned.Epoch, layers: layers, shards: shards})
	}
	return true
}

// serve adds the newest epoch, which is ready with that.
func (e *epochs) serve(h heldEpoch) {
	e.state = transport.StateReady
	e.held = slices.DeleteFunc(e.held, func(old heldEpoch) bool { return !old.former && old.epoch == h.epoch })
	served := slices.IndexFunc(e.held, func(old heldEpoch) bool { return !old.former })
	if served >= 0 && len(e.held)-served >= transport.MaxServed {
		// Assignments came quicker than beats. Of the present ones the active one is needed, as far as it is known.
		if e.held[served].epoch == e.active {
			served++
		}
		e.held, e.dropped = slices.Delete(e.held, served, served+1), true
	}
	e.held = append(e.held, h)
}

// beat takes a coordinator's beat.
func (e *epochs) beat(b *transport.CoordinatorBeat) {
	if e.assigned == nil || b.Instance != e.assigned.Coordinator || b.Term != e.assigned.Term || b.Epoch == 0 {
		return
	}
	if b.Epoch != e.active {
		e.active, e.beats = b.Epoch, 0
	}
	e.beats++
	if e.beats < steadyBeats {
		return
	}
	newest, before := e.assigned.Epoch, len(e.held)
	_, holdsActive := e.serving(e.active)
	e.held = slices.DeleteFunc(e.held, func(h heldEpoch) bool {
		switch {
		case e.active > newest: // the active plan has no place for this worker
			return e.beats >= spareBeats
		case h.former, e.active < h.epoch && h.epoch < newest:
			return holdsActive || e.active < newest
		default:
			return h.epoch < e.active && (holdsActive || e.active < newest)
		}
	})
	if e.spare() && e.beats >= spareBeats {
		e.free()
	}
	e.dropped = e.dropped || len(e.held) < before
}

// spare says whether the active plan has no place for this worker.
func (e *epochs) spare() bool {
	return e.assigned != nil && e.active > e.assigned.Epoch && e.beats >= steadyBeats
}

// free forgets the coordinator. What is held stays, so that an equal assignment is ready at once.
func (e *epochs) free() {
	e.assigned, e.failure, e.state, e.active, e.beats = nil, "", transport.StateIdle, 0, 0
	for i := range e.held {
		e.held[i].former = true
	}
}

// serving gives the shards of a served epoch.
func (e *epochs) serving(epoch uint64) (*shard.Shards, bool) {
	for _, h := range e.held {
		if !h.former && h.epoch == epoch {
			return h.shards, true
		}
	}
	return nil, false
}

// serves lists the served epochs, ascending.
func (e *epochs) serves() (list []uint64) {
	for _, h := range e.held {
		if !h.former {
			list = append(list, h.epoch)
		}
	}
	return list
}

// keep forgets what is held for nobody, and gives the shards that must stay: all other slots may be given back now.
func (e *epochs) keep() []*shard.Shards {
	e.dropped = false
	e.held = slices.DeleteFunc(e.held, func(h heldEpoch) bool { return h.former && e.assigned != nil })
	return e.shards()
}

// shards are all that are held.
func (e *epochs) shards() (all []*shard.Shards) {
	for _, h := range e.held {
		all = append(all, h.shards)
	}
	return all
}

func equalLayers(a, b []transport.LayerParts) bool {
	return slices.EqualFunc(a, b, func(x, y transport.LayerParts) bool {
		return x.Layer == y.Layer && slices.Equal(x.Parts, y.Parts)
	})
}
