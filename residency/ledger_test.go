package residency

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func newTestLedger(t *testing.T, policy string, limit int64, layers, parts int) *Ledger {
	t.Helper()
	p, err := Parse(policy)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Limit: limit, Policy: p, Parts: parts, Bytes: func(Part) int64 { return 10 }}
	for layer := range layers {
		o.Layers = append(o.Layers, layer)
	}
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLRU(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, "lru", 40, 2, 8)
	for _, step := range []struct {
		layer int
		ids   []uint32
		want  Outcome
	}{
		{0, []uint32{1, 2}, Outcome{Waves: []Wave{{Read: []uint32{1, 2}}}, MissBytes: 20}},
		{1, []uint32{1, 2}, Outcome{Waves: []Wave{{Read: []uint32{1, 2}}}, MissBytes: 20}},
		{0, []uint32{2, 3}, Outcome{Hits: []uint32{2}, Waves: []Wave{{Evict: []Part{{0, 1}}, Read: []uint32{3}}}, MissBytes: 10}},
		{1, []uint32{1, 2}, Outcome{Hits: []uint32{1, 2}}},
		{0, []uint32{0, 1, 2, 3, 4}, Outcome{Hits: []uint32{2, 3}, Waves: []Wave{
			{Evict: []Part{{1, 1}}, Read: []uint32{0}}, {Evict: []Part{{1, 2}}, Read: []uint32{1}}, {Evict: []Part{{0, 2}}, Read: []uint32{4}}}, MissBytes: 30}},
	} {
		got := l.Request(step.layer, step.ids)
		normal := Outcome{Hits: got.Hits, Waves: got.Waves, MissBytes: got.MissBytes}
		if diff := cmp.Diff(step.want, normal, cmp.Transformer("empty", func(s []uint32) []uint32 { return append([]uint32{}, s...) }),
			cmp.Transformer("empty", func(s []Part) []Part { return append([]Part{}, s...) }),
			cmp.Transformer("empty", func(s []Wave) []Wave { return append([]Wave{}, s...) })); diff != "" {
			t.Fatalf("layer %d, %v (-want +got):\n%s", step.layer, step.ids, diff)
		}
	}
}
