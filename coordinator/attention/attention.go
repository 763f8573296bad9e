// Package attention owns the KV cache and grouped-query attention over it, in blocks of a fixed size aligned to absolute
// positions (DESIGN §2), so that chunks, threads and neighbours don't change a bit. It must not know of weights, experts or
// tokens.
package attention

import (
	"fmt"
	"math"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
)

// BlockKeys is the number of keys of one block.
const BlockKeys = 64

// tileRows is the most rows of one job: they share the conversion of a block from the cache's format.
const tileRows = 16

// Row is one query position: its heads in Q [heads·headDim] see the cache's keys (Position-window, Position]. The result is
// stored into Out [heads·headDim].
type Row struct {
	Cache    *Cache
	Position int
	Q, Out   []float32
}

// Attention computes grouped-query attention: query head h uses the keys and values of head h·kvHeads/heads. It is used by one
// goroutine at a time.
type Attention struct {
	set     *kernels.Set
	team    *team.Team
	shape   Shape
	heads   int
	scale   float32
	tiles   []tile
	threads []scratch
}

// tile is a run of rows [from, to) of one cache.
type tile struct{ from, to int }

// scratch is what one thread needs.
type scratch struct {
	keys, values []float32 // one block, for formats that are converted
	out          []float32 // one head of one block
	max, sum     []float32 // the running state of each row and head of a tile
}

// New gives attention of a number of query heads, a multiple of shape.KVHeads, over caches of a shape. Scores are scaled by
// 1/√headDim.
func New(set *kernels.Set, t *team.Team, shape Shape, heads int) (*Attention, error) {
	if err := shape.validate(); err != nil {
		return nil, err
	}
	if heads < 1 || heads%shape.KVHeads != 0 {
		return nil, fmt.Errorf("attention: %d query heads don't divide among %d key/value heads", heads, shape.KVHeads)
	}
	a := &Attention{
		set: set, team: t, shape: shape, heads: heads,
		scale:   float32(1 / math.Sqrt(float64(shape.HeadDim))),
		threads: make([]scratch, t.Threads()),
	}
	states := tileRows * heads / shape.KVHeads
	for i := range a.threads {
		s := &a.threads[i]
		if shape.Format != F32 {
			s.keys, s.values = make([]float32, BlockKeys*shape.HeadDim), make([]float32, BlockKeys*shape.HeadDim)
		}
		s.out = make([]float32, shape.HeadDim)
		s.max, s.sum = make([]float32, states), make([]float32, states)
	}
	return a, nil
}

// Run computes one layer's attention of rows, whose keys and values are stored already. Rows of one cache that follow each other
// share work. window is the number of positions that a query sees, its own included; 0 is all.
func (a *Attention) Run(layer, window int, rows []Row) error {
	a.tiles = a.tiles[:0]
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && to-from < tileRows && rows[to].Cache == rows[from].Cache {
			to++
		}
		a.tiles = append(a.tiles, tile{from, to})
		from = to
	}
	return a.team.Run(len(a.tiles)*a.shape.KVHeads, func(i, thread int) error {
		t := a.tiles[i/a.shape.KVHeads]
		a.tile(&a.threads[thread], layer, window, rows[t.from:t.to], i%a.shape.KVHeads)
		return nil
	})
}

// visible is the range of positions that a query sees. It depends on nothing but the query's position.
func visible(position, window int) (from, to int) {
	if window > 0 {
		from = max(0, position-window+1)
	}
	return from, position + 1
}

// tile computes the query heads of one key/value head for rows of one cache. For each row the operations are the same
// whatever rows share its tile: its blocks in ascending order, each cut to the keys that it sees.
func (a *Attention) tile(s *scratch, layer, window int, rows []Row, kvHead int) {
	dim, group := a.shape.HeadDim, a.heads/a.shape.KVHeads
	first, last := visible(rows[0].Position, window)
	for _, r := range rows[1:] {
		from, to := visible(r.Position, window)
		first, last = min(first, from), max(last, to)
	}
	for block := first / BlockKeys; block*BlockKeys < last; block++ {
		start := block * BlockKeys
		keys, values := rows[0].Cache.read(a.set, s, layer, kvHead, block, max(first-start, 0), min(last-start, BlockKeys))
		for i, r := range rows {
			from, to := visible(r.Position, window)
			begins := from >= start // this is the row's first block
			from, to = max(from-start, 0), min(to-start, BlockKeys)
			if from >= to {
				continue
			}
			k, v := keys[from*dim:to*dim], values[from*dim:to*dim]
			for g := range group {
				head, state := (kvHead*group+g)*dim, i*group+g
				q, out := r.Q[head:head+dim], r.Out[head:head+dim]
				if begins {
					s.max[state], s.sum[state] = a.set.AttendBlock(out, q, k, v, to-from, a.scale)
					continue
				}
				most, sum := a.set.AttendBlock(s.out, q, k, v, to-from, a.scale)
				s.max[state], s.sum[state] = a.set.MergeBlock(out, s.max[state], s.sum[state], s.out, most, sum)
			}
		}
	}
	for i, r := range rows {
		for g := range group {
			head := (kvHead*group + g) * dim
			a.set.Divide(r.Out[head:head+dim], s.sum[i*group+g])
		}
	}
}
