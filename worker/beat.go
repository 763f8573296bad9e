package worker

import (
	"os"

	"github.com/moepool/moepool/transport"
)

// beat says what the worker is at this moment.
func (p *process) beat() *transport.Beat {
	p.mu.Lock()
	shards, look := p.shards, p.lookNow
	if shards != nil {
		p.lookNow = false
	}
	b := &transport.Beat{
		Worker: p.o.ID, Instance: p.instance, Host: p.host, Node: p.o.Node, PID: os.Getpid(), CPUs: p.seat.cpus, Threads: p.team.Threads(),
		Kernels: p.o.Kernels.Name(), Capacity: p.memory.Available, Identity: p.identity,
		State: p.state, Error: p.failure, LoadedBytes: p.ready, TotalBytes: p.total, Bound: p.seat.bound, Lane: p.lane,
	}
	if p.assigned != nil {
		b.Epoch, b.Term, b.Coordinator = p.assigned.Epoch, p.assigned.Term, p.assigned.Coordinator
		if p.state == transport.StateReady {
			b.Serves = []uint64{p.assigned.Epoch}
		}
	}
	p.mu.Unlock()

	b.RSSAnon = rssAnon()
	c := p.store.Counters()
	b.Arena = transport.ArenaReport{Files: c.Files, Bytes: c.Bytes, PackedBytes: c.PackedBytes, ReusedBytes: c.ReusedBytes, Fallbacks: c.Fallbacks}
	b.Notes = p.seat.allNotes()
	if shards != nil {
		b.ExpertParts = shards.Plan().Count
		b.Pages = shards.Pages()
		b.Notes = append(b.Notes, shards.Notes()...)
		if look {
			b.Resident = shards.Resident()
		}
	}
	return b
}
