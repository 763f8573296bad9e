package residency

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

// scene is a ledger's shape and what is asked of it.
type scene struct {
	options Options
	calls   []event
}

// drawScene draws a small model with parts of unequal size, and some calls. Requests are as a model makes them, layer after layer, or in any order; some are much larger
// than others.
func drawScene(t *rapid.T, policy Policy) scene {
	layers, parts := rapid.IntRange(1, 4).Draw(t, "layers"), rapid.IntRange(1, 12).Draw(t, "parts")
	sizes := rapid.SliceOfN(rapid.Int64Range(1, 5), parts, parts).Draw(t, "sizes")
	s := scene{options: Options{Policy: policy, Parts: parts, Bytes: func(p Part) int64 { return sizes[p.ID] }, Limit: 5 + rapid.Int64Range(0, 60).Draw(t, "limit")}}
	for l := range layers {
		s.options.Layers = append(s.options.Layers, 2*l+1)
	}
	list := func(name string) []uint32 {
		ids := rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(parts-1)), 0, parts, rapid.ID[uint32]).Draw(t, name)
		slices.Sort(ids)
		return ids
	}
	for i := range rapid.IntRange(1, 60).Draw(t, "calls") {
		e := event{op: rapid.SampledFrom([]operation{work, work, work, work, work, insert, prefetch, prefetch, remove, seed}).Draw(t, "op"),
			layer: s.options.Layers[i%layers]}
		if rapid.IntRange(0, 3).Draw(t, "out of turn") == 0 {
			e.layer = rapid.SampledFrom(s.options.Layers).Draw(t, "layer")
		}
		switch e.op {
		case work:
			e.parts = list("parts")
			if rapid.Bool().Draw(t, "is cut") {
				for range rapid.IntRange(0, 2).Draw(t, "cuts") {
					e.cut = append(e.cut, LayerParts{rapid.SampledFrom(s.options.Layers).Draw(t, "cut layer"), list("cut")})
				}
				for _, id := range e.parts {
					if rapid.Bool().Draw(t, "is filled") {
						e.filled = append(e.filled, id)
					}
				}
			}
		case seed:
			for range rapid.IntRange(0, 5).Draw(t, "profile") {
				e.profile = append(e.profile, Heat{Part{rapid.SampledFrom(s.options.Layers).Draw(t, "hot layer"),
					rapid.Uint32Range(0, uint32(parts)).Draw(t, "hot part")}, rapid.Float64Range(0, 1.5).Draw(t, "heat")})
			}
		default:
			e.parts = []uint32{rapid.Uint32Range(0, uint32(parts-1)).Draw(t, "part")}
		}
		s.calls = append(s.calls, e)
	}
	return s
}

// forPolicies runs a property for each policy.
func forPolicies(t *testing.T, property func(t *rapid.T, p Policy)) {
	for _, name := range Names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) { property(t, p) })
		})
	}
}

func newLedger(t *rapid.T, o Options) *Ledger {
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// memory is what a worker does with a ledger's answers.
type memory struct {
	*rapid.T
	*Ledger
	resident map[Part]bool
	bytes    int64
	busy     map[Part]bool // of the latest request
	hints    map[Part]bool // brought in by hints, since the latest request
}

func (m *memory) in(p Part) {
	if m.resident[p] {
		m.Fatalf("%v is read though it is resident", p)
	}
	m.resident[p] = true
	if m.bytes += m.Bytes(p); m.bytes > m.limit {
		m.Fatalf("%d bytes are resident after reading %v, the limit is %d", m.bytes, p, m.limit)
	}
}

func (m *memory) out(p Part) {
	if !m.resident[p] {
		m.Fatalf("%v is evicted though it isn't resident", p)
	}
	delete(m.resident, p)
	m.bytes -= m.Bytes(p)
}

func (m *memory) request(layer int, ids []uint32) {
	var hits, misses []uint32
	var bytes int64
	wanted := map[Part]bool{}
	for _, id := range ids {
		p := Part{layer, id}
		wanted[p] = true
		if m.resident[p] {
			hits = append(hits, id)
		} else {
			misses = append(misses, id)
			bytes += m.Bytes(p)
		}
	}
	before := m.Counters()
	out := m.Request(layer, ids)
	if !slices.Equal(out.Hits, hits) || out.MissBytes != bytes {
		m.Fatalf("the hits are %v and %d bytes miss, want %v and %d", out.Hits, out.MissBytes, hits, bytes)
	}
	computed := map[Part]bool{}
	for _, id := range hits {
		computed[Part{layer, id}] = true
	}
	var read []uint32
	for i, w := range out.Waves {
		if len(w.Read) == 0 && (i > 0 || len(out.Waves) == 1) {
			m.Fatalf("wave %d of %v reads nothing", i, out.Waves)
		}
		for _, p := range w.Evict {
			if wanted[p] && (i == 0 || !computed[p]) {
				m.Fatalf("wave %d of %+v evicts %v, which the request has not computed yet", i, out, p)
			}
			m.out(p)
		}
		for _, id := range w.Read {
			m.in(Part{layer, id})
			computed[Part{layer, id}] = true // by the next wave
		}
		read = append(read, w.Read...)
	}
	if !slices.Equal(read, misses) {
		m.Fatalf("the waves read %v, want %v", read, misses)
	}
	if len(computed) != len(ids) {
		m.Fatalf("%d parts are computed, want %d", len(computed), len(ids))
	}
	after := m.Counters()
	if after.Hits+after.Misses != before.Hits+before.Misses+uint64(len(ids)) || after.MissBytes != before.MissBytes+bytes || after.Requests != before.Requests+1 {
		m.Fatalf("the counters go from %+v to %+v by a request of %d parts", before, after, len(ids))
	}
	m.busy, m.hints = wanted, map[Part]bool{}
}

func (m *memory) call(e event) {
	switch e.op {
	case work:
		m.request(e.layer, e.parts)
	case insert:
		p := Part{e.layer, e.parts[0]}
		there, room := m.resident[p], m.bytes+m.Bytes(p) <= m.limit
		if ok := m.Insert(p); ok != (there || room) {
			m.Fatalf("inserting %v: %v; resident: %v, room: %v", p, ok, there, room)
		}
		if !there && room {
			m.in(p)
		}
	case prefetch:
		p := Part{e.layer, e.parts[0]}
		evict, ok := m.Prefetch(p)
		if ok == m.resident[p] && ok || !ok && len(evict) > 0 || !ok && !m.resident[p] && m.bytes+m.Bytes(p) <= m.limit {
			m.Fatalf("a hint for %v: %v, %v; resident: %v", p, evict, ok, m.resident[p])
		}
		for _, v := range evict {
			if m.busy[v] || m.hints[v] {
				m.Fatalf("a hint evicts %v, which is in use or hinted itself", v)
			}
			m.out(v)
		}
		if ok {
			m.in(p)
			m.hints[p] = true
		}
	case remove:
		p := Part{e.layer, e.parts[0]}
		m.Remove(p)
		if m.resident[p] {
			m.out(p)
		}
		delete(m.hints, p)
	case seed:
		m.Seed(e.profile)
	}
	if m.Used() != m.bytes {
		m.Fatalf("the ledger has %d bytes, want %d", m.Used(), m.bytes)
	}
	for _, layer := range m.layers {
		for id := range uint32(m.parts) {
			if p := (Part{layer, id}); m.Resident(p) != m.resident[p] {
				m.Fatalf("after %+v the ledger says of %v that it is resident: %v", e, p, m.Resident(p))
			}
		}
	}
}

// TestLedgerIsTheMemory does what ledgers say, as a worker would: the limit holds at each moment, waves evict nothing that is not computed yet, and the ledger says at
// each moment what is in memory.
func TestLedgerIsTheMemory(t *testing.T) {
	t.Parallel()
	forPolicies(t, func(t *rapid.T, p Policy) {
		s := drawScene(t, p)
		m := &memory{T: t, Ledger: newLedger(t, s.options), resident: map[Part]bool{}, hints: map[Part]bool{}}
		for _, e := range s.calls {
			m.call(e)
		}
	})
}

// tell plays a call and says what came of it.
func tell(l *Ledger, e event) string {
	switch e.op {
	case work:
		return fmt.Sprintf("%+v", l.Request(e.layer, e.parts))
	case insert:
		return fmt.Sprint(l.Insert(Part{e.layer, e.parts[0]}))
	case prefetch:
		return fmt.Sprint(l.Prefetch(Part{e.layer, e.parts[0]}))
	case remove:
		l.Remove(Part{e.layer, e.parts[0]})
	case seed:
		l.Seed(e.profile)
	}
	return ""
}

// TestSameHistorySameAnswers plays calls on two ledgers, and the last of them on a clone, which then doesn't disturb the ledger that it is of.
func TestSameHistorySameAnswers(t *testing.T) {
	t.Parallel()
	forPolicies(t, func(t *rapid.T, p Policy) {
		s := drawScene(t, p)
		a, b := newLedger(t, s.options), newLedger(t, s.options)
		at := rapid.IntRange(0, len(s.calls)).Draw(t, "clone at")
		var clone *Ledger
		var later []string
		for i, e := range s.calls {
			if i == at {
				clone = a.Clone()
				for _, e := range s.calls[at:] {
					later = append(later, tell(clone, e))
				}
			}
			x, y := tell(a, e), tell(b, e)
			if x != y {
				t.Fatalf("call %d, %+v:\n%s\n%s", i, e, x, y)
			}
			if i >= at && later[i-at] != x {
				t.Fatalf("call %d, %+v, of a clone:\n%s\nwant\n%s", i, e, later[i-at], x)
			}
		}
		if clone != nil {
			if diff := cmp.Diff(hottestFirst(a), hottestFirst(clone)); diff != "" {
				t.Fatalf("the clone's profile (-want +got):\n%s", diff)
			}
			if a.Counters() != clone.Counters() {
				t.Fatalf("the clone counts %+v, want %+v", clone.Counters(), a.Counters())
			}
		}
	})
}
