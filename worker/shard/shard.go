package shard

import (
	"github.com/moepool/moepool/arena"
)

// Shards are the loaded expert parts of one plan. Several may share a Holder, and slots in it.
type Shards struct {
	h       *Holder
	plan    *Plan
	layers  map[int]*layer
	notes   []string
	stuck   int64 // bytes in files that stayed in memory though they were evicted while loading
	retired bool  // under Holder.computing
}

// layer is one layer's shard.
type layer struct {
	number int
	owned  []bool         // by expert·parts+part
	arenas []*arena.Arena // by part; nil where nothing is owned
	held   *heldLayer
}

// Plan is what was loaded.
func (s *Shards) Plan() *Plan { return s.plan }

// Notes are the degraded modes found while loading.
func (s *Shards) Notes() []string { return s.notes }

// slot gives an expert part's arena and its slot in it.
func (l *layer) slot(id uint32) (a *arena.Arena, slot int) {
	parts := len(l.arenas)
	return l.arenas[int(id)%parts], int(id) / parts
}
