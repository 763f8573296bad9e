package cluster

import (
	"bytes"
	"io"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// TestMachineNeverGoesBack: raft may restore a snapshot older than what has been applied, and applies the entries from there on again. The
// state is that of the furthest entry at each moment, and in the end that of a log applied once.
func TestMachineNeverGoesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := entries(t)
		restores := rapid.IntRange(0, 5).Draw(t, "restores")
		once := &State{}
		states := make([]*State, len(log))
		m := newMachine(func(err error) { t.Fatal(err) })
		for at, furthest := 0, -1; at < len(log); at++ {
			e := log[at]
			if at > furthest {
				furthest, once = at, mustApply(t, once, e)
				states[at] = once
			}
			m.Apply(&raft.Log{Index: e.Index, Term: e.Term, Data: e.Data, Type: raft.LogCommand})
			if restores > 0 && rapid.IntRange(0, 3).Draw(t, "restore") == 0 {
				restores--
				at = rapid.IntRange(0, at).Draw(t, "snapshot of entry")
				if err := m.Restore(io.NopCloser(bytes.NewReader(encode(t, states[at])))); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(encode(t, m.State()), encode(t, once)) {
				t.Fatalf("after entry %d of %d the state is that of index %d, not %d", at, furthest, m.State().Index, once.Index)
			}
		}
	})
}
