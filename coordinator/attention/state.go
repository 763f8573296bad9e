package attention

import "github.com/moepool/moepool/kernels"

// partial is the state of a tile's queries after a segment.
type partial struct {
	max, sum []float32
	out      [][]float32
	begun    []bool // the query saw a key
}

func (p *partial) init(headDim, queries int) {
	p.max, p.sum = make([]float32, queries), make([]float32, queries)
	p.out, p.begun = make([][]float32, queries), make([]bool, queries)
	out := make([]float32, queries*headDim)
	for i := range p.out {
		p.out[i] = out[i*headDim : (i+1)*headDim]
	}
}

func (p *partial) reset(queries int) { clear(p.begun[:queries]) }

// scratch is what one thread needs.
type scratch struct {
	tile    *kernels.AttentionTile
	queries [kernels.AttentionRows]int // which ones are in the tile
	earlier kernels.AttentionState     // of queries whose segments are folded
	later   kernels.AttentionState

	q, out  [][]float32 // of the tile's queries
	total   partial     // the state of all segments so far; out is unused
	segment partial
}

func (s *scratch) init(headDim, queries int) {
	s.tile = kernels.NewAttentionTile(headDim, headDim)
	s.q, s.out = make([][]float32, 0, queries), make([][]float32, 0, queries)
	s.total.max, s.total.sum = make([]float32, queries), make([]float32, queries)
	s.total.begun = make([]bool, queries)
	s.segment.init(headDim, queries)
}

// begin sets the queries of one key/value head of rows.
func (s *scratch) begin(a *Attention, rows []Row, head int) {
	dim := a.shape.HeadDim
	s.q, s.out = s.q[:0], s.out[:0]
	for _, r := range rows {
		for g := range a.group {
			at := (head*a.group + g) * dim
			s.q, s.out = append(s.q, r.Q[at:at+dim]), append(s.out, r.Out[at:at+dim])
		}
	}
	clear(s.total.begun[:len(s.q)])
}

// take adds a query to the tile; what it sees is set.
func (s *scratch) take(q int) {
	s.tile.Q[s.tile.Rows], s.queries[s.tile.Rows] = s.q[q], q
	s.tile.Rows++
}

// attend computes the tile's queries against a block and empties it.
func (s *scratch) attend(a *Attention, p *partial, b, next kernels.KVBlock) {
	t := s.tile
	p.load(&t.State, p.out, s.queries[:t.Rows])
	a.set.AttendBlockAhead(t, b, a.scale, next)
	p.store(&t.State, s.queries[:t.Rows])
	t.Rows = 0
}

// fold adds a segment's results to the total, which lies in s.out.
func (s *scratch) fold(a *Attention, p *partial) {
	n := 0
	for q, begun := range p.begun[:len(s.q)] {
		if begun {
			s.queries[n] = q
			n++
		}
		if n == len(s.queries) || n > 0 && q == len(s.q)-1 {
			queries := s.queries[:n]
			s.total.load(&s.earlier, s.out, queries)
			p.load(&s.later, p.out, queries)
			a.set.MergeAttention(&s.earlier, &s.later, n)
			s.total.store(&s.earlier, queries)
			n = 0
		}
	}
}

// finish divides by the sums.
func (s *scratch) finish(a *Attention) {
	for q, out := range s.out {
		a.set.Divide(out, s.total.sum[q])
	}
}

// load sets a state to that of some queries, whose outputs are in out: the neutral one for those that begin.
func (p *partial) load(state *kernels.AttentionState, out [][]float32, queries []int) {
	for i, q := range queries {
		state.Max[i], state.Sum[i], state.Out[i] = p.max[q], p.sum[q], out[q]
		if !p.begun[q] {
			state.Reset(i)
		}
	}
}

// store keeps the state of some queries.
func (p *partial) store(state *kernels.AttentionState, queries []int) {
	for i, q := range queries {
		p.max[q], p.sum[q], p.begun[q] = state.Max[i], state.Sum[i], true
	}
}
