package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"

	"github.com/moepool/moepool/internal/leaks"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

func selectSet(t testing.TB, name string) *kernels.Set {
	t.Helper()
	set, err := kernels.Select(name)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func newTeam(t testing.TB, threads int) *team.Team {
	t.Helper()
	tm, err := team.New(threads, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tm.Close)
	return tm
}

// history is random queries, keys and values of one sequence.
type history struct {
	shape            Shape
	heads, positions int
	q, k, v          []float32
}

func newHistory(shape Shape, heads, positions int, seed uint64) history {
	r := rand.New(rand.NewPCG(seed, 1))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	return history{shape, heads, positions, random(positions * heads * shape.HeadDim),
		random(positions * shape.KVHeads * shape.HeadDim), random(positions * shape.KVHeads * shape.HeadDim)}
}

// store appends positions [from, to) to a cache, in one layer.
func (h history) store(t testing.TB, set *kernels.Set, c *Cache, layer, from, to int) {
	t.Helper()
	if err := c.Reserve(to); err != nil {
		t.Fatal(err)
	}
	n := h.shape.KVHeads * h.shape.HeadDim
	for p := from; p < to; p++ {
		c.Store(set, layer, p, h.k[p*n:(p+1)*n], h.v[p*n:(p+1)*n])
	}
}

// rows are the queries of positions [from, to) with their places in out [positions, heads·headDim].
func (h history) rows(c *Cache, out []float32, from, to int) (rows []Row) {
	n := h.heads * h.shape.HeadDim
	for p := from; p < to; p++ {
		rows = append(rows, Row{Cache: c, Position: p, Q: h.q[p*n : (p+1)*n], Out: out[p*n : (p+1)*n]})
	}
	return rows
}

// reference is attention in float64, one softmax over all visible keys.
func (h history) reference(window int) []float32 {
	dim, n := h.shape.HeadDim, h.shape.KVHeads*h.shape.HeadDim
	out := make([]float32, len(h.q))
	for p := range h.positions {
		for head := range h.heads {
			at := (p*h.heads + head) * dim
			kv := head * h.shape.KVHeads / h.heads * dim
			from := 0
			if window > 0 && p >= window {
				from = p - window + 1
			}
			var total float64
			acc := make([]float64, dim)
			for s := from; s <= p; s++ {
				var dot float64
				for d := range dim {
					dot += float64(h.q[at+d]) * float64(h.k[s*n+kv+d])
				}
				e := math.Exp(dot / math.Sqrt(float64(dim)))
				total += e
				for d := range dim {
					acc[d] += e * float64(h.v[s*n+kv+d])
				}
			}
			for d := range dim {
				out[at+d] = float32(acc[d] / total)
			}
		}
	}
	return out
}

func TestAgainstOneSoftmax(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		heads, kvHeads, dim, positions, window int
		format                                 Format
		tolerance                              float64
	}{
		{4, 2, 32, 200, 0, F32, 1e-5},
		{4, 2, 32, 200, 12, F32, 1e-5},
		{3, 1, 16, 200, 64, F32, 1e-5},
		{2, 2, 8, 200, 65, F32, 1e-5},
		{4, 4, 40, 600, 0, F32, 1e-5},
		{8, 1, 24, 600, 300, F32, 1e-5},
		{8, 2, 64, 140, 100, BF16, 3e-2},
		{8, 2, 64, 140, 100, Int8, 5e-2},
		{1, 1, 2, 1, 1, BF16, 3e-2},
		{6, 2, 64, 300, 0, Int8, 5e-2},
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			t.Parallel()
			shape := Shape{Layers: 2, KVHeads: test.kvHeads, HeadDim: test.dim, Format: test.format}
			h := newHistory(shape, test.heads, test.positions, 7)
			set := selectSet(t, "")
			a, err := New(set, newTeam(t, 2), shape, test.heads)
			if err != nil {
				t.Fatal(err)
			}
			c := newCache(t, shape)
			h.store(t, set, c, 1, 0, h.positions)
			got := make([]float32, len(h.q))
			if err := a.Run(1, test.window, h.rows(c, got, 0, h.positions)); err != nil {
				t.Fatal(err)
			}
			for i, want := range h.reference(test.window) {
				if d := math.Abs(float64(got[i] - want)); !(d <= test.tolerance) {
					t.Fatalf("element %d of position %d is %v, want %v", i, i/(test.heads*test.dim), got[i], want)
				}
			}
		})
	}
}

func newCache(t testing.TB, shape Shape) *Cache {
	t.Helper()
	c, err := NewCache(shape)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Any cut into chunks, any number of threads, any neighbour and any kernels give the same bits as position by position.
func TestSameBits(t *testing.T) {
	t.Parallel()
	shape := Shape{Layers: 1, KVHeads: 2, HeadDim: 16}
	const heads, positions = 4, 330 // two segments
	windows, formats := []int{0, 1, 20, 64, 100, 270}, []Format{F32, BF16, Int8}
	teams := []*team.Team{newTeam(t, 1), newTeam(t, 2), newTeam(t, 4)}
	h, neighbour := newHistory(shape, heads, positions, 1), newHistory(shape, heads, positions, 2)
	type variant struct {
		window int
		format Format
	}
	want := map[variant][]float32{}
	for _, window := range windows {
		for _, format := range formats {
			shape.Format = format
			a, err := New(selectSet(t, "generic"), teams[0], shape, heads)
			if err != nil {
				t.Fatal(err)
			}
			c, out := newCache(t, shape), make([]float32, len(h.q))
			for p := range positions {
				h.store(t, a.set, c, 0, p, p+1)
				if err := a.Run(0, window, h.rows(c, out, p, p+1)); err != nil {
					t.Fatal(err)
				}
			}
			want[variant{window, format}] = out
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		v := variant{rapid.SampledFrom(windows).Draw(rt, "window"), rapid.SampledFrom(formats).Draw(rt, "format")}
		shape := shape
		shape.Format = v.format
		a, err := New(selectSet(t, rapid.SampledFrom(kernels.Available()).Draw(rt, "kernels")), rapid.SampledFrom(teams).Draw(rt, "team"), shape, heads)
		if err != nil {
			rt.Fatal(err)
		}
		c, other := newCache(t, shape), newCache(t, shape)
		defer c.Close()
		defer other.Close()
		out, otherOut := make([]float32, len(h.q)), make([]float32, len(h.q))
		neighbour.store(t, a.set, other, 0, 0, positions)
		for from := 0; from < positions; {
			to := min(positions, from+rapid.IntRange(1, rapid.SampledFrom([]int{1, 80, 400}).Draw(rt, "most")).Draw(rt, "chunk"))
			h.store(t, a.set, c, 0, from, to)
			rows := h.rows(c, out, from, to)
			if n := rapid.IntRange(0, 5).Draw(rt, "neighbours"); n > 0 {
				at := rapid.IntRange(0, positions-n).Draw(rt, "at")
				rows = slices.Concat(neighbour.rows(other, otherOut, at, at+n), rows)
			}
			if err := a.Run(0, v.window, rows); err != nil {
				rt.Fatal(err)
			}
			from = to
		}
		for i, w := range want[v] {
			if math.Float32bits(out[i]) != math.Float32bits(w) {
				rt.Fatalf("%+v: element %d of position %d is %v, want %v", v, i, i/(heads*shape.HeadDim), out[i], w)
			}
		}
	})
}

func TestCacheGrowsByBlocks(t *testing.T) {
	t.Parallel()
	shape := Shape{Layers: 3, KVHeads: 2, HeadDim: 4, Format: BF16}
	c := newCache(t, shape)
	block := int64(BlockKeys * 3 * 2 * (4 + 32) * 2) // values are padded to 32 elements
	if got := int64(BlockKeys * shape.PositionBytes()); got != block {
		t.Fatalf("a block has %d bytes, want %d", got, block)
	}
	grow := func(positions int, want int64) {
		t.Helper()
		if err := c.Reserve(positions); err != nil {
			t.Fatal(err)
		}
		if c.Bytes() != want {
			t.Errorf("%d positions take %d bytes, want %d", positions, c.Bytes(), want)
		}
	}
	grow(0, 0)
	grow(1, block)
	grow(64, block)
	grow(65, 2*block)
	grow(3, 2*block)
	grow(300, 5*block)
	for _, cut := range []struct {
		positions int
		want      int64
	}{{256, 4 * block}, {129, 3 * block}, {128, 2 * block}, {1, block}, {0, 0}} {
		c.Truncate(cut.positions)
		if c.Bytes() != cut.want {
			t.Errorf("cut to %d positions: %d bytes, want %d", cut.positions, c.Bytes(), cut.want)
		}
	}
	grow(10, block)
	c.Close()
	c.Close()
	if c.Bytes() != 0 {
		t.Errorf("a closed cache has %d bytes", c.Bytes())
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	if f, err := ParseFormat("bf16"); f != BF16 || err != nil {
		t.Errorf("bf16: %v, %v", f, err)
	}
	if _, err := ParseFormat("q8"); err == nil || err.Error() != `KV format "q8" is unknown; valid are "f32", "bf16" and "int8"` {
		t.Errorf("q8: %v", err)
	}
	good := Shape{Layers: 1, KVHeads: 2, HeadDim: 4, Format: F32}
	for _, bad := range []Shape{{0, 2, 4, F32}, {1, 0, 4, F32}, {1, 2, 0, F32}, {1, 2, 4, "q8"}} {
		if _, err := NewCache(bad); err == nil {
			t.Errorf("a cache of %+v is accepted", bad)
		}
	}
	for _, heads := range []int{0, 3} {
		if _, err := New(selectSet(t, ""), newTeam(t, 1), good, heads); err == nil {
			t.Errorf("%d query heads over 2 are accepted", heads)
		}
	}
}
