package cluster

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// mustApply applies an entry that can be decoded; refusals are part of it.
func mustApply(t rapid.TB, s *State, e Entry) *State {
	next, err := s.Apply(e)
	if refused := (*RefusedError)(nil); err != nil && !errors.As(err, &refused) && !errors.Is(err, ErrStaleTerm) {
		t.Fatalf("entry %d: %v", e.Index, err)
	}
	return next
}

func encode(t rapid.TB, s *State) []byte {
	data, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestAnySplit: applying a log at once, or with a snapshot taken and restored after any of its entries, gives the same state and the
// same bytes; a state is never changed by what comes later.
func TestAnySplit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := entries(t)
		whole := &State{}
		var encoded [][]byte
		var states []*State
		for _, e := range log {
			whole = mustApply(t, whole, e)
			states, encoded = append(states, whole), append(encoded, encode(t, whole))
		}
		split := &State{}
		for i, e := range log {
			split = mustApply(t, split, e)
			if !bytes.Equal(encode(t, states[i]), encoded[i]) {
				t.Fatalf("the state after entry %d was changed later", e.Index)
			}
			if !rapid.Bool().Draw(t, "snapshot") {
				continue
			}
			data := encode(t, split)
			if !bytes.Equal(data, encoded[i]) {
				t.Fatalf("after entry %d two ways give other bytes", e.Index)
			}
			restored, err := DecodeState(data)
			if err != nil {
				t.Fatal(err)
			}
			split = restored
		}
		if !bytes.Equal(encode(t, split), encoded[len(encoded)-1]) {
			t.Fatal(cmp.Diff(whole, split))
		}
	})
}

// valuesOf is a state without what counts commands.
func valuesOf(t rapid.TB, s *State) []byte {
	c := *s
	c.Index, c.Term, c.History = 0, 0, State{}.History
	return encode(t, &c)
}

// TestRules: epochs and leaders' terms only grow, a plan's workers are admitted, so are drained ones, the manifest stays, a command that is
// repeated changes nothing, and a refused one neither.
func TestRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &State{}
		for _, e := range entries(t) {
			next, err := s.Apply(e)
			if next == nil {
				t.Fatal(err)
			}
			if err != nil && !bytes.Equal(valuesOf(t, s), valuesOf(t, next)) {
				t.Fatalf("refused (%v), and yet changed:\n%s", err, cmp.Diff(s, next))
			}
			if s.Plan != nil && (next.Plan == nil || next.Plan.Epoch < s.Plan.Epoch || next.Plan.Epoch == s.Plan.Epoch && !reflect.DeepEqual(s.Plan, next.Plan)) {
				t.Fatalf("plan of epoch %d was replaced by %+v", s.Plan.Epoch, next.Plan)
			}
			if next.LeaderTerm < s.LeaderTerm {
				t.Fatalf("the leader's term fell from %d to %d", s.LeaderTerm, next.LeaderTerm)
			}
			if s.Manifest != (transport.Identity{}) && s.Manifest.Mismatch("", next.Manifest, "") != "" {
				t.Fatalf("manifest %v became %v", s.Manifest, next.Manifest)
			}
			needed := slices.Collect(maps.Keys(next.Drained))
			if next.Plan != nil {
				needed = slices.AppendSeq(needed, maps.Keys(next.Plan.Owned))
			}
			for _, id := range needed {
				if next.Workers[id].ID != id {
					t.Fatalf("worker %s is planned or drained and not admitted", id)
				}
			}
			again, err2 := next.Apply(Entry{Index: e.Index + 1, Term: e.Term, Data: e.Data})
			if err == nil && err2 != nil || !bytes.Equal(valuesOf(t, next), valuesOf(t, again)) {
				t.Fatalf("once %v, again %v:\n%s", err, err2, cmp.Diff(next, again))
			}
			s = next
		}
	})
}

// TestHistory: two logs that differ anywhere have another hash from there on, though they lead to the same values.
func TestHistory(t *testing.T) {
	t.Parallel()
	drain := func(drained bool) []byte {
		data, err := Encode(&MarkDrain{Worker: "nobody", Drained: drained}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	a := mustApply(t, mustApply(t, &State{}, Entry{1, 1, drain(true)}), Entry{2, 1, drain(true)})
	for _, log := range [][2]Entry{
		{{1, 1, drain(false)}, {2, 1, drain(true)}}, {{1, 1, drain(true)}, {3, 1, drain(true)}}, {{1, 1, drain(true)}, {2, 2, drain(true)}},
	} {
		if b := mustApply(t, mustApply(t, &State{}, log[0]), log[1]); a.History == b.History {
			t.Fatalf("%v has the same history", log)
		}
	}
}

// TestRefusals: each refusal says what is in the way.
func TestRefusals(t *testing.T) {
	t.Parallel()
	plan := func(epoch uint64, worker string) *CommitPlan {
		owners := map[int][][]string{0: {{worker}}}
		return &CommitPlan{&placement.Plan{Epoch: epoch, Owners: owners, Owned: owned(owners, []string{worker})}}
	}
	index := uint64(0)
	s := &State{}
	do := func(c Command, term uint64, want string) {
		t.Helper()
		data, err := Encode(c, term)
		if err != nil {
			t.Fatal(err)
		}
		index++
		next, err := s.Apply(Entry{Index: index, Term: 5, Data: data})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Fatalf("%T: %v, want %q", c, err, want)
		}
		s = next
	}
	do(&SetManifest{transport.Identity{Parts: 1, Format: "q8"}}, 0, "")
	do(&SetManifest{transport.Identity{Parts: 2, Format: "q8"}}, 0, "parts: the group 1, this coordinator 2")
	do(plan(1, "w0"), 0, "needs worker w0, which is not admitted")
	do(&MarkDrain{"w0", true}, 0, "w0 is not admitted")
	do(&AdmitWorkers{[]Worker{{ID: "w0"}, {ID: "w1"}}}, 0, "")
	do(plan(3, "w0"), 5, "")
	do(plan(3, "w0"), 5, "")
	do(plan(3, "w1"), 5, "epoch 3, and one of epoch 3 is committed")
	do(plan(2, "w1"), 5, "epoch 2, and one of epoch 3 is committed")
	do(plan(4, "w1"), 4, "another term: 4, and the log is at 5")
	do(&RemoveWorker{"w0"}, 0, "has experts in the plan of epoch 3")
	do(&MarkDrain{"w1", true}, 0, "")
	do(&RemoveWorker{"w1"}, 0, "")
	if s.Drained["w1"] || s.Plan.Epoch != 3 {
		t.Fatalf("%+v", s)
	}
}
