package worker

import (
	"os"

	"github.com/moepool/moepool/transport"
)

// beat says what the worker is at this moment.
func (p *process) beat() *transport.Beat {
	p.mu.Lock()
	shards, look := p.epochs.shards(), p.lookNow
	if len(shards) > 0 {
		p.lookNow = false
	}
	b := &transport.Beat{
		Worker: p.o.ID, Instance: p.instance, Host: p.host, Node: p.o.Node, PID: os.Getpid(), CPUs: p.seat.cpus, Threads: p.team.Threads(),
		Kernels: p.o.Kernels.Name(), Capacity: p.memory.Available, Identity: p.identity, State: p.epochs.state, Error: p.epochs.failure,
		Serves: p.epochs.serves(), LoadedBytes: p.ready, TotalBytes: p.total, Bound: p.seat.bound, Lane: p.lane,
	}
	if a := p.epochs.assigned; a != nil {
		b.Epoch, b.Term, b.Coordinator = a.Epoch, a.Term, a.Coordinator
	}
	if p.leaving {
		b.State = transport.StateDraining
	}
	if p.ending {
		b.Serves = nil // its last word: work that has not arrived yet is refused
	}
	p.mu.Unlock()

	b.RSSAnon = rssAnon()
	c := p.store.Counters()
	b.Arena = transport.ArenaReport{Files: c.Files, Bytes: c.Bytes, PackedBytes: c.PackedBytes, ReusedBytes: c.ReusedBytes, Fallbacks: c.Fallbacks}
	b.LayerTimes = p.holder.Times()
	b.ComputedBytes, b.ComputeTime = p.holder.Bandwidth()
	b.Notes = p.seat.allNotes()
	if n := len(shards); n > 0 {
		newest := shards[n-1]
		b.ExpertParts = newest.Plan().Count
		b.Pages = p.holder.Pages()
		b.Notes = append(b.Notes, newest.Notes()...)
		if look {
			b.Resident = p.holder.Resident(shards...)
		}
	}
	return b
}
