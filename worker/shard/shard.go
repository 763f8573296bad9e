package shard

import (
	"sync"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/transport"
)

// Options say what to load and with what.
type Options struct {
	// Checkpoint is read while loading, and again when a slot has to be rebuilt: it stays open as long as the shards. It may be nil
	// with Pack.
	Checkpoint *checkpoint.Checkpoint

	// Pack fills dst with the packed bytes of an expert part, from several goroutines; nil packs from Checkpoint. A benchmark makes
	// its weights in place with it.
	Pack func(shape kernels.ExpertShape, layer, expert, part int, dst []byte) error

	// Plan is what to own.
	Plan *Plan

	// Store holds the arenas; the caller closes it after the last use of the shards.
	Store *arena.Store

	// Dir is the store's folder, for messages and for the free space of its disk; "" is anonymous memory.
	Dir string

	// Memory is what this process may still take, before loading; the zero value skips the check.
	Memory Memory

	// Team packs and computes. Its threads carry the node's memory policy.
	Team *team.Team

	// Kernels computes; it is not needed for packing alone.
	Kernels *kernels.Set

	// Node is where pages belong; negative: not looked at.
	Node int

	// StrictNUMA makes less than 95 % of local pages an error of Load.
	StrictNUMA bool

	// Previous are shards of the same store and model that these ones replace; what both own stays as it is, what only the
	// previous ones own is given back. They can't compute any more, even if Load fails.
	Previous *Shards

	// Progress is told the bytes that are ready, of all, from several goroutines; may be nil.
	Progress func(ready, total int64)

	// Log receives what a person should see; may be nil.
	Log func(format string, args ...any)
}

// Shards are the loaded expert parts of one worker.
type Shards struct {
	o      Options
	layers map[int]*layer
	notes  []string
	pages  placement
	limits limits

	mu      sync.Mutex // one Compute at a time
	retired bool
	scratch scratch

	bringJob, gateJob, downJob func(i, thread int) error // bringPart, computeGate and computeDown
}

// layer is one layer's shard.
type layer struct {
	number int
	owned  []bool         // by expert·parts+part
	arenas []*arena.Arena // by part; nil where nothing is owned
	pages  []slotPages    // by expert·parts+part
}

// Plan is what was loaded.
func (s *Shards) Plan() *Plan { return s.o.Plan }

// Notes are the degraded modes found while loading.
func (s *Shards) Notes() []string { return s.notes }

// Pages counts the pages of expert parts by where they lay when last looked at: after loading, and when a part was read later.
func (s *Shards) Pages() transport.PagesReport { return s.pages.report() }

// Resident gives for each layer which owned expert parts are in memory as a whole.
func (s *Shards) Resident() []transport.LayerBitmap {
	parts := s.o.Plan.Parts
	var all []transport.LayerBitmap
	for _, pl := range s.o.Plan.Layers {
		l := s.layers[pl.Number]
		bits := make([]byte, (len(l.owned)+7)/8)
		for _, id := range pl.Owned {
			if l.arenas[int(id)%parts].Resident(int(id) / parts) {
				bits[id/8] |= 1 << (id % 8)
			}
		}
		all = append(all, transport.LayerBitmap{Layer: pl.Number, Bits: bits})
	}
	return all
}

// slot gives an expert part's arena and its slot in it.
func (l *layer) slot(id uint32) (a *arena.Arena, slot int) {
	parts := len(l.arenas)
	return l.arenas[int(id)%parts], int(id) / parts
}
