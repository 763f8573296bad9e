package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/cluster"
	"github.com/moepool/moepool/coordinator/dispatch"
	"github.com/moepool/moepool/coordinator/placement"
)

// TestAdopt: what the group has counts, what it has not stays as the coordinator's flags have it, and a later leader begins from its own flags
// again.
func TestAdopt(t *testing.T) {
	t.Parallel()
	var said []string
	c := &Coordinator{options: Options{Budget: budget.Policy{Count: 4, Rescue: true}, Missing: time.Second,
		Log: func(format string, _ ...any) { said = append(said, format) }}}
	for _, s := range []struct {
		settings map[string]string
		want     policies
	}{
		{nil, policies{budget.Policy{Count: 4, Rescue: true}, dispatch.WaitMissing, time.Second, 0}},
		{map[string]string{"expert-budget": "off", "budget-prefill": "true", "on-missing": "drop", "of-the-future": "x"},
			policies{budget.Policy{Prefill: true, Rescue: true}, dispatch.DropMissing, time.Second, 0}},
		{map[string]string{"expert-budget": "mass=0.05,topp=0.9,fill=20", "budget-prefill": "true"},
			policies{budget.Policy{Mass: 0.05, TopP: 0.9, Fill: 20, Prefill: true, Rescue: true}, dispatch.WaitMissing, time.Second, 0}},
		{map[string]string{"budget-rescue": "false", "missing-deadline": "2s", "replicas": "2"}, policies{budget.Policy{Count: 4}, dispatch.WaitMissing, 2 * time.Second, 2}},
	} {
		if err := c.adopt(s.settings); err != nil || *c.policies.Load() != s.want {
			t.Errorf("%v: %v, %v, want %v", s.settings, err, c.policies.Load(), &s.want)
		}
	}
	if len(said) != 3 {
		t.Errorf("it is said each time that other policies count, and only then: %q", said)
	}
	before := *c.policies.Load()
	for _, name := range Policies() {
		if err := c.adopt(map[string]string{name: "neither"}); err == nil || !strings.Contains(err.Error(), "--"+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if *c.policies.Load() != before {
		t.Error("what can't be read changed something")
	}
}

// TestPlanCommands: a plan's workers are admitted before it, drain marks of workers that have experts again go, and so do workers that are
// neither there nor in the plan.
func TestPlanCommands(t *testing.T) {
	t.Parallel()
	plan := &placement.Plan{Epoch: 2, Owned: map[string]map[int][]uint32{"b": {}, "new": {}}}
	state := &cluster.State{
		Workers: map[string]cluster.Worker{"a": {ID: "a"}, "b": {ID: "b", Host: "h", Node: 1}},
		Drained: map[string]bool{"a": true, "b": true},
	}
	var got []string
	for _, command := range planCommands(state, nil, plan) {
		switch c := command.(type) {
		case *cluster.MarkDrain:
			if c.Drained {
				t.Error("a mark is set")
			}
			got = append(got, "unmark "+c.Worker)
		case *cluster.AdmitWorkers:
			for _, w := range c.Workers {
				got = append(got, "admit "+w.ID)
			}
		case *cluster.CommitPlan:
			got = append(got, "plan")
		case *cluster.RemoveWorker:
			got = append(got, "remove "+c.Worker)
		}
	}
	if s := strings.Join(got, ", "); s != "unmark b, admit new, plan, remove a" {
		t.Error(s)
	}
}
