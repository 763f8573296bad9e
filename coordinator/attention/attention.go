// Package attention owns the KV cache and grouped-query attention over it, in blocks of a fixed size aligned to absolute
// positions (DESIGN §2), so that chunks, threads and neighbours don't change a bit. It must not know of weights, experts or
// tokens.
//
// A query's blocks of BlockKeys keys are folded in ascending order within segments of segmentBlocks blocks, and the segments' results in
// ascending order: so segments can be computed at once. Both begin with the neutral state (-Inf, 0, zeros).
package attention

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
)

// BlockKeys is the number of keys of one block.
const BlockKeys = kernels.KVBlockKeys

const (
	// segmentBlocks is the number of blocks of a segment, aligned to absolute positions.
	segmentBlocks = 4
	segmentKeys   = segmentBlocks * BlockKeys

	// tileQueries is about how many queries (rows times heads) of one key/value head a job computes: they share a block while it is in
	// the first cache. mostTileRows keeps jobs even where groups are small.
	tileQueries  = 128
	mostTileRows = 32

	// jobsPerThread is for how many jobs a thread tiles are split into segments: enough that a slow thread leaves some to the others.
	jobsPerThread = 4
)

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
	set          *kernels.Set
	team         *team.Team
	shape        Shape
	heads, group int // query heads: all, and those of one key/value head
	tileRows     int
	scale        float32

	tiles    []tile
	jobs     []job
	splits   []split
	partials []partial // of all segments of split tiles
	threads  []scratch

	// Of the run in progress.
	layer, window int
	rows          []Row
	work          func(i, thread int) error
}

// tile is a run of rows [from, to) of one cache, which see keys of the segments [first, last).
type tile struct{ from, to, first, last int }

// job is one key/value head of a tile: all segments, or one of them if split ≥ 0.
type job struct{ tile, head, segment, split int }

// split is one key/value head of a tile whose segments are jobs of their own; the last one to end folds their results.
type split struct {
	partials int // the first one
	open     atomic.Int32
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
	group := heads / shape.KVHeads
	a := &Attention{
		set: set, team: t, shape: shape, heads: heads, group: group,
		tileRows: min(max(tileQueries/group, 1), mostTileRows),
		scale:    float32(1 / math.Sqrt(float64(shape.HeadDim))),
		threads:  make([]scratch, t.Threads()),
	}
	a.work = a.runJob
	for i := range a.threads {
		a.threads[i].init(shape.HeadDim, a.tileRows*group)
	}
	return a, nil
}

// Run computes one layer's attention of rows, whose keys and values are stored already. Rows of one cache that follow each other
// share work. window is the number of positions that a query sees, its own included; 0 is all.
func (a *Attention) Run(layer, window int, rows []Row) error {
	a.layer, a.window, a.rows = layer, window, rows
	a.plan()
	err := a.team.Run(len(a.jobs), a.work)
	a.rows = nil
	return err
}

// visible is the range of positions that a query sees. It depends on nothing but the query's position.
func visible(position, window int) (from, to int) {
	if window > 0 {
		from = max(0, position-window+1)
	}
	return from, position + 1
}

// plan cuts the rows into tiles and these into jobs, the longest first.
func (a *Attention) plan() {
	a.tiles, a.jobs = a.tiles[:0], a.jobs[:0]
	for from := 0; from < len(a.rows); {
		first, last := visible(a.rows[from].Position, a.window)
		to := from + 1
		for to < len(a.rows) && to-from < a.tileRows && a.rows[to].Cache == a.rows[from].Cache {
			begin, end := visible(a.rows[to].Position, a.window)
			first, last = min(first, begin), max(last, end)
			to++
		}
		a.tiles = append(a.tiles, tile{from, to, first / segmentKeys, (last + segmentKeys - 1) / segmentKeys})
		from = to
	}
	slices.SortFunc(a.tiles, func(x, y tile) int { return cmp.Compare(y.cost(), x.cost()) })

	wanted := 0 // jobs, below which tiles are split
	if threads := a.team.Threads(); threads > 1 {
		wanted = threads * jobsPerThread
	}
	splits, states := 0, 0
	if len(a.tiles)*a.shape.KVHeads < wanted {
		for _, t := range a.tiles {
			if segments := t.last - t.first; segments > 1 {
				splits += a.shape.KVHeads
				states += a.shape.KVHeads * segments
			}
		}
	}
	a.reserve(splits, states)
	splits, states = 0, 0
	for i, t := range a.tiles {
		for head := range a.shape.KVHeads {
			segments := t.last - t.first
			if len(a.splits) == 0 || segments == 1 {
				a.jobs = append(a.jobs, job{i, head, 0, -1})
				continue
			}
			a.splits[splits].partials = states
			a.splits[splits].open.Store(int32(segments))
			for s := range segments {
				a.jobs = append(a.jobs, job{i, head, t.first + s, splits})
			}
			splits++
			states += segments
		}
	}
}

func (t tile) cost() int { return (t.to - t.from) * (t.last - t.first) }

// reserve makes room for some splits and the results of their segments.
func (a *Attention) reserve(splits, states int) {
	if cap(a.splits) < splits {
		a.splits = make([]split, splits)
	}
	a.splits = a.splits[:splits]
	if queries := a.tileRows * a.group; states > len(a.partials) {
		a.partials = make([]partial, states)
		for i := range a.partials {
			a.partials[i].init(a.shape.HeadDim, queries)
		}
	}
}

// runJob computes a job on a thread of the team.
func (a *Attention) runJob(i, thread int) error {
	j, s := a.jobs[i], &a.threads[thread]
	t := a.tiles[j.tile]
	rows := a.rows[t.from:t.to]
	if j.split < 0 {
		s.begin(a, rows, j.head)
		for segment := t.first; segment < t.last; segment++ {
			a.segment(s, &s.segment, rows, j.head, segment, t.last)
			s.fold(a, &s.segment)
		}
		s.finish(a)
		return nil
	}
	sp := &a.splits[j.split]
	partials := a.partials[sp.partials : sp.partials+t.last-t.first]
	s.begin(a, rows, j.head)
	a.segment(s, &partials[j.segment-t.first], rows, j.head, j.segment, j.segment+1)
	if sp.open.Add(-1) == 0 {
		for i := range partials {
			s.fold(a, &partials[i])
		}
		s.finish(a)
	}
	return nil
}

// segment computes what the queries see of one segment. A few queries pass over all its blocks before the next few do: their states stay in
// the first cache, and the blocks in the second. The block after each one is asked for early, up to that of the segment end.
func (a *Attention) segment(s *scratch, p *partial, rows []Row, head, segment, end int) {
	p.reset(len(s.q))
	cache, t := rows[0].Cache, s.tile
	begin := segment * segmentBlocks
	stop, last := min(begin+segmentBlocks, len(cache.blocks)), min(end*segmentBlocks, len(cache.blocks))-1
	for first := 0; first < len(s.q); first += kernels.AttentionRows {
		for block := begin; block < stop; block++ {
			start := block * BlockKeys
			t.Rows = 0
			for q := first; q < min(first+kernels.AttentionRows, len(s.q)); q++ {
				from, to := visible(rows[q/a.group].Position, a.window)
				from, to = max(from-start, 0), min(to-start, BlockKeys)
				if from >= to {
					continue
				}
				t.From[t.Rows], t.To[t.Rows] = int32(from), int32(to)
				s.take(q)
			}
			if t.Rows > 0 {
				s.attend(a, p, cache.head(a.layer, head, block), cache.head(a.layer, head, min(block+1, last)))
			}
		}
	}
}
