package membership

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

// TestResidency: an expert is resident if all its parts are; snapshots don't change; a worker speaks only for what it owns.
func TestResidency(t *testing.T) {
	t.Parallel()
	m := placement.Model{Layers: []int{2}, Experts: 3, Parts: 2, PartBytes: []int64{1, 1}}
	plan, err := placement.Compute(1, m, []placement.Worker{{ID: "a"}, {ID: "b"}}, placement.Options{}) // a owns part 0 of each expert, b part 1
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(m)
	l.place(plan)
	before := l.take()
	l.report("a", []transport.LayerBitmap{{Layer: 2, Bits: []byte{0xff}}, {Layer: 9, Bits: []byte{0xff}}}, 0)
	if s := l.take(); s.Resident(2, 0) || !s.ResidentPart(2, 0, 0) || s.ResidentPart(2, 0, 1) || before.ResidentPart(2, 0, 0) {
		t.Fatal("after a's report")
	}
	l.report("b", []transport.LayerBitmap{{Layer: 2, Bits: []byte{0b001010}}}, 0) // part 1 of experts 0 and 1
	s := l.take()
	for expert, want := range []bool{true, true, false} {
		if s.Resident(2, int32(expert)) != want {
			t.Errorf("expert %d: resident %v", expert, !want)
		}
	}
	if s.Resident(2, 3) || s.Resident(2, -1) || s.Resident(7, 0) {
		t.Error("an expert that doesn't exist is resident")
	}
	if l.take() != s {
		t.Error("a snapshot without a change was copied")
	}
	l.set(2, 5, true)
	l.set(2, 999, true)
	if !l.take().Resident(2, 2) || s.Resident(2, 2) {
		t.Error("after a computation")
	}
	l.report("b", []transport.LayerBitmap{{Layer: 2, Bits: nil}}, 0)
	if s := l.take(); s.ResidentPart(2, 0, 1) || !s.ResidentPart(2, 0, 0) {
		t.Error("after an empty bitmap")
	}
	l.forget("a")
	if l.take().ResidentPart(2, 0, 0) {
		t.Error("after the loss of a")
	}
}

// TestChanges: answers of workers change what they have in memory, each for itself; the last word is what had to make room.
func TestChanges(t *testing.T) {
	t.Parallel()
	m := placement.Model{Layers: []int{2, 3}, Experts: 4, Parts: 2, PartBytes: []int64{1, 1}}
	plan, err := placement.Compute(1, m, []placement.Worker{{ID: "a"}, {ID: "b"}}, placement.Options{}) // a owns part 0 of each expert, b part 1
	if err != nil {
		t.Fatal(err)
	}
	c := &Members{ledger: newLedger(m)}
	c.ledger.place(plan)
	parts := func(layer int, ids ...uint32) []transport.LayerParts {
		return []transport.LayerParts{{Layer: layer, Parts: ids}}
	}
	state := func(layer int) (resident []uint32) {
		s := c.Residency()
		for item := range uint32(8) {
			if s.ResidentPart(layer, int32(item/2), int(item%2)) {
				resident = append(resident, item)
			}
		}
		return resident
	}
	for _, step := range []struct {
		worker       string
		layer        int
		result       transport.Result
		want2, want3 []uint32
	}{
		{"a", 2, transport.Result{Parts: []uint32{0, 2}}, []uint32{0, 2}, nil},
		{"b", 2, transport.Result{Parts: []uint32{1}, Arrived: parts(3, 3, 5)}, []uint32{0, 1, 2}, []uint32{3, 5}},
		{"a", 3, transport.Result{Parts: []uint32{0, 4}, Arrived: parts(2, 4), Evicted: append(parts(2, 0), parts(3, 4)...)}, []uint32{1, 2, 4}, []uint32{0, 3, 5}},
		// What isn't its own, and what doesn't exist.
		{"a", 2, transport.Result{Parts: []uint32{3, 99}, Evicted: append(parts(2, 1, 1000), parts(7, 0)...)}, []uint32{1, 2, 4}, []uint32{0, 3, 5}},
		{"stranger", 2, transport.Result{Parts: []uint32{0}}, []uint32{1, 2, 4}, []uint32{0, 3, 5}},
	} {
		before := c.Residency()
		c.Computed(step.worker, step.layer, &step.result)
		if d := cmp.Diff([][]uint32{step.want2, step.want3}, [][]uint32{state(2), state(3)}); d != "" {
			t.Errorf("%+v of %s: %s", step.result, step.worker, d)
		}
		if before == c.Residency() && step.worker != "stranger" && len(step.result.Parts) > 0 && step.result.Parts[0] != 3 {
			t.Errorf("%+v of %s: the snapshot is the same", step.result, step.worker)
		}
	}
	s := c.Residency()
	for expert := range int32(4) {
		for part, want := range []int{0, 1} {
			if got := s.Reader(2, expert, part); got != want {
				t.Errorf("expert %d part %d is read by %d, want %d", expert, part, got, want)
			}
		}
	}
	if s.Reader(2, 4, 0) != 0 || s.Reader(2, -1, 0) != 0 || s.Reader(9, 0, 1) != 0 || new(Residency).Reader(2, 0, 1) != 0 {
		t.Error("what doesn't exist is read by somebody")
	}
}

// TestLateBeats: bitmaps that were taken before results that have arrived already change nothing that these told, so that the view of a
// worker whose memory changes with its results only is its state after the last one, whenever beats come.
func TestLateBeats(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := placement.Model{Layers: []int{0, 1}, Experts: 9, Parts: 1, PartBytes: []int64{1}}
		plan, err := placement.Compute(1, m, []placement.Worker{{ID: "a"}}, placement.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := &Members{ledger: newLedger(m)}
		c.ledger.place(plan)
		type beat struct {
			resident []transport.LayerBitmap
			results  uint64
		}
		var state [2][2]byte
		var late []beat
		for i := range rapid.IntRange(1, 20).Draw(t, "results") {
			number := uint64(i + 1)
			layer, r := rapid.IntRange(0, 1).Draw(t, "layer"), transport.Result{Number: number}
			for item := range uint32(9) {
				switch bit := byte(1) << (item % 8); rapid.IntRange(0, 3).Draw(t, "what happened") {
				case 0:
					state[layer][item/8] |= bit
					r.Parts = append(r.Parts, item)
				case 1:
					state[layer][item/8] &^= bit
					r.Evicted = append(r.Evicted, transport.LayerParts{Layer: layer, Parts: []uint32{item}})
				}
			}
			c.Computed("a", layer, &r)
			if rapid.Bool().Draw(t, "beat is taken") {
				b := beat{results: number}
				for layer := range state {
					b.resident = append(b.resident, transport.LayerBitmap{Layer: layer, Bits: bytes.Clone(state[layer][:])})
				}
				late = append(late, b)
			}
			for len(late) > 0 && rapid.Bool().Draw(t, "beat comes") {
				c.ledger.report("a", late[0].resident, late[0].results)
				late = late[1:]
			}
			view := c.Residency()
			for layer := range state {
				for item := range 9 {
					if want := state[layer][item/8]>>(item%8)&1 != 0; view.ResidentPart(layer, int32(item), 0) != want {
						t.Fatalf("after result %d, layer %d expert %d: resident %v, want %v", number, layer, item, !want, want)
					}
				}
			}
		}
	})
}

// TestLedgerAgainstMap compares with the obvious implementation.
func TestLedgerAgainstMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := placement.Model{Layers: []int{0, 1}, Experts: 50, Parts: 3}
		l, want := newLedger(m), map[[2]int]bool{}
		for range rapid.IntRange(0, 100).Draw(t, "changes") {
			layer, item, resident := rapid.IntRange(0, 1).Draw(t, "layer"), rapid.IntRange(0, 149).Draw(t, "item"), rapid.Bool().Draw(t, "resident")
			l.set(layer, uint32(item), resident)
			want[[2]int{layer, item}] = resident
			if rapid.IntRange(0, 9).Draw(t, "take") == 0 {
				l.take()
			}
		}
		s := l.take()
		for layer := range 2 {
			for expert := range 50 {
				all := true
				for part := range 3 {
					part1 := want[[2]int{layer, expert*3 + part}]
					all = all && part1
					if s.ResidentPart(layer, int32(expert), part) != part1 {
						t.Fatalf("layer %d expert %d part %d", layer, expert, part)
					}
				}
				if s.Resident(layer, int32(expert)) != all {
					t.Fatalf("layer %d expert %d", layer, expert)
				}
			}
		}
	})
}
