package worker

import (
	"fmt"
	"os"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
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
	b.Residency = p.residency()
	if n := len(shards); n > 0 {
		newest := shards[n-1]
		b.ExpertParts = newest.Plan().Count
		b.Pages = p.holder.Pages()
		b.Resident, b.Results = p.bitmaps(look, shards)
		if text := p.fit.look(usage{b.Residency, busy(b.LayerTimes)}, newest.Plan().Bytes); text != "" {
			p.seat.note("%s", text)
		}
		b.Notes = newest.Notes()
	}
	b.Notes = append(p.seat.allNotes(), b.Notes...)
	if c.LockRefusedBytes > 0 {
		b.Notes = append(b.Notes, lockNote(c))
	}
	return b
}

// lockNote is for those who don't see the worker's log, where the store says why.
func lockNote(c arena.Counters) string {
	return fmt.Sprintf("--mlock: %s of the experts in memory could not be locked, %s are (ulimit -l, or LimitMEMLOCK= of systemd, allows more)",
		bytesize.Text(c.LockRefusedBytes), bytesize.Text(c.LockedBytes))
}

// bitmaps says which expert parts are in memory. A ledger knows at any time, and is asked whether that has changed; else the kernel is asked
// when it is time to look.
func (p *process) bitmaps(look bool, shards []*shard.Shards) (resident []transport.LayerBitmap, results uint64) {
	version := p.holder.ResidencyVersion()
	if !look && version == p.told {
		return nil, 0
	}
	p.told, results = version, p.holder.Results()
	return p.holder.Resident(shards...), results
}

// busy is for how many seconds layers were computed.
func busy(times []transport.LayerTime) (seconds float64) {
	for _, t := range times {
		seconds += float64(t.Nanoseconds) / 1e9
	}
	return seconds
}

// residency is the holder's report with what the process knows.
func (p *process) residency() transport.ResidencyReport {
	r := p.holder.Residency()
	r.Warm, r.Locked = string(p.o.Residency.Warm), p.store.Counters().LockedBytes
	p.mu.Lock()
	defer p.mu.Unlock()
	r.WarmDone, r.WarmTotal = p.warmDone, p.warmTotal
	return r
}
