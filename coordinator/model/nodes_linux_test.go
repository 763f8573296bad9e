package model

import (
	"bytes"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/numa"
)

// loadOnNodes loads with one thread on each of two nodes that share a CPU; the second node exists on no machine.
func loadOnNodes(t *testing.T, cp *checkpoint.Checkpoint, format kernels.Format) *Model {
	t.Helper()
	cpus, err := numa.ThreadAffinity(0)
	if err != nil {
		t.Fatal(err)
	}
	tm, err := team.NewOnNodes(2, []numa.Node{{ID: 0, Cores: cpus[:1]}, {ID: 1023, Cores: cpus[:1]}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tm.Close)
	if !tm.Pinned() {
		t.Skip("SKIPPED: this process may not set the affinity of its threads")
	}
	m, err := Load(cp, format, tm, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// A node that memory can't be bound to is no error; it is said, pages are counted, and the weights are the same bytes.
func TestLoadOnNodes(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"qwen2_moe", "qwen3_moe", "mixtral"} {
		cp := synthetic(t, synth.Tiny(family))
		want, got := load(t, cp, kernels.Q8), loadOnNodes(t, cp, kernels.Q8)
		if want.Placement() != nil || want.PlacementProblem() != "" {
			t.Errorf("%s: placement %v on one node, %q", family, want.Placement(), want.PlacementProblem())
		}
		if !bytes.Equal(got.Head.Data, want.Head.Data) {
			t.Errorf("%s: LM heads differ", family)
		}
		for i := range got.Layers {
			a, b := &got.Layers[i], &want.Layers[i]
			same := bytes.Equal(a.Q.Data, b.Q.Data) && bytes.Equal(a.K.Data, b.K.Data) && bytes.Equal(a.V.Data, b.V.Data) &&
				bytes.Equal(a.O.Data, b.O.Data)
			if a.Router != nil {
				same = same && bytes.Equal(a.Router.Data, b.Router.Data)
			}
			if a.Shared != nil {
				same = same && bytes.Equal(a.Shared.Down.Data, b.Shared.Down.Data)
			}
			if !same || len(a.InputNorm) != len(b.InputNorm) {
				t.Errorf("%s: layer %d differs", family, i)
			}
		}
		placement := got.Placement()
		if len(placement) != 2 || placement[0].Node != 0 || placement[1].Node != 1023 || placement[1].Pages.Local > 0 ||
			placement[0].Pages == (numa.Pages{}) || placement[1].Pages == (numa.Pages{}) {
			t.Errorf("%s: placement %+v", family, placement)
		}
		if problem := got.PlacementProblem(); !strings.Contains(problem, "dense weights") || !strings.Contains(problem, "1023") {
			t.Errorf("%s: problem %q", family, problem)
		}
	}
}
