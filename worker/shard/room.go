package shard

import (
	"fmt"

	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/residency"
)

// Memory is what this process may still take.
type Memory struct {
	Available int64  // bytes; 0 is unknown
	Why       string // where the number comes from: "MemAvailable 3.1 GiB, cgroup limit 4.0 GiB"
}

// room is what loading needs and what there is, in bytes.
type room struct {
	plan      int64 // packed bytes of all owned expert parts
	missing   int64 // of them, to be packed
	disk      int64 // of these, into files
	anonymous int64 // of these, into anonymous memory
	free      int64 // on the disk of the folder; negative if unknown
	buffers   int64 // for packing
}

// RoomError says that the experts don't fit into memory.
type RoomError struct {
	Needed, Available int64
	Why               string
}

func (e *RoomError) Error() string {
	return fmt.Sprintf("experts need %s of memory, available are %s (%s)", bytesize.Text(e.Needed), bytesize.Text(e.Available), e.Why)
}

// measure finds out what loading will take.
func (s *Shards) measure() room {
	plan := s.plan
	r := room{plan: plan.Bytes, free: -1}
	if s.h.o.Dir != "" {
		r.free = freeBytes(s.h.o.Dir)
	}
	for _, pl := range plan.Layers {
		for part, slots := range pl.Slots {
			bytes, missing := int64(plan.Shapes[part].Bytes()), int64(0)
			for _, slot := range slots {
				if !s.layers[pl.Number].arenas[part].Valid(slot) {
					missing += bytes
				}
			}
			r.missing += missing
			if len(slots) > 0 && s.layers[pl.Number].arenas[part].Anonymous() {
				r.anonymous += missing
			} else {
				r.disk += missing
			}
			if missing > 0 {
				r.buffers = max(r.buffers, bytes*int64(min(len(slots), buffersPerThread*s.h.o.Team.Threads())))
			}
		}
	}
	// What the disk has no room for becomes anonymous memory.
	if r.free >= 0 && r.disk > r.free {
		r.anonymous += r.disk - r.free
		r.disk = r.free
	}
	return r
}

// checkRoom prints the plan, and refuses one that can't fit before anything is packed.
func (s *Shards) checkRoom(r room, look func() Memory) error {
	where := "in anonymous memory"
	if s.h.o.Dir != "" {
		where = "in " + s.h.o.Dir
	}
	s.h.o.Log("%d expert parts of %d layers, %s, %s: %s to pack", s.plan.Count, len(s.plan.Layers), bytesize.Text(r.plan), where, bytesize.Text(r.missing))
	var memory Memory
	if look != nil {
		memory = look()
	}
	if memory.Available <= 0 {
		return nil
	}
	why := memory.Why
	if r.free >= 0 {
		why += fmt.Sprintf("; %s free on the disk of %s, %s to store there", bytesize.Text(r.free), s.h.o.Dir, bytesize.Text(r.disk))
	}
	if needed := r.anonymous + r.buffers; r.anonymous > 0 && needed > memory.Available {
		return &RoomError{Needed: needed, Available: memory.Available, Why: why}
	}
	limited := s.h.o.Resident != nil && s.h.o.Resident.Limit <= memory.Available // who set it knows
	if !limited && s.h.o.Dir != "" && r.plan > memory.Available {
		s.note("experts take %s, memory available is %s (%s): some will be read from disk again and again", bytesize.Text(r.plan), bytesize.Text(memory.Available), memory.Why)
	}
	return nil
}

// noteFallbacks says what lies in anonymous memory though a folder was asked for.
func (s *Shards) noteFallbacks() {
	switch n := s.h.o.Store.Counters().Fallbacks; {
	case n == 0:
	case s.h.o.Dir == "":
		s.note("all %d arenas lie in anonymous memory: the arena folder can't be used", n)
	default:
		s.note("%d of %d arenas lie wholly or partly in anonymous memory, not in %s", n, s.arenaCount(), s.h.o.Dir)
	}
}

// noteUnlimited says so if the resident limit can't work: what is not in files can't be evicted.
func (s *Shards) noteUnlimited() {
	if s.h.ledger == nil {
		return
	}
	bytes := int64(0)
	for _, pl := range s.plan.Layers {
		for _, id := range pl.Owned {
			if a, slot := s.layers[pl.Number].slot(id); !a.InFile(slot) {
				bytes += s.bytes(residency.Part{Layer: pl.Number, ID: id})
			}
		}
	}
	if s.stuck > 0 {
		s.note("%s of experts in %s stay in memory when they are evicted (a folder in memory, or another process that uses its files): they come on top of the resident limit of %s",
			bytesize.Text(s.stuck), s.h.o.Dir, bytesize.Text(s.h.o.Resident.Limit))
	}
	if bytes > 0 {
		s.note("%s of experts lie in anonymous memory, which a resident limit can't evict: they come on top of the limit of %s", bytesize.Text(bytes), bytesize.Text(s.h.o.Resident.Limit))
	}
}

func (s *Shards) arenaCount() (n int) {
	for _, l := range s.layers {
		for _, a := range l.arenas {
			if a != nil {
				n++
			}
		}
	}
	return n
}
