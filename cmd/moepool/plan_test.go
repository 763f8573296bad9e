//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/moepool/moepool/coordinator/forecast"
)

// TestPlan: what a prediction says of the demo model and of a released model's shape is what workers would hold.
func TestPlan(t *testing.T) {
	t.Parallel()
	hosts := writeFile(t, `hosts: [{name: a, nodes: 2, memory_gib: 100, read_gbps: 50, compute_gops: 2000}, {name: b, memory_gib: 100, read_gbps: 50, compute_gops: 2000}]`)
	for _, model := range [][]string{nil, {"--like", "qwen3-30b-a3b", "--format", "q4"}} {
		var f forecast.Forecast
		if err := json.Unmarshal([]byte(moepool(t, append([]string{"plan", "--json", "--hosts", hosts}, model...)...)), &f); err != nil {
			t.Fatal(err)
		}
		var held int64
		for _, w := range f.Workers {
			held += w.Experts
		}
		if len(f.Workers) != 3 || held != f.ExpertBytes || f.TokensPerSecond <= 0 || f.Step.Network <= 0 {
			t.Errorf("%v: %+v", model, f)
		}
	}
	text := moepool(t, "plan", "--hosts", hosts)
	for _, want := range []string{"a-node1", "b-node0", "experts: memory", "tokens/s with 1 rows"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	var simulated []forecast.Simulated
	if err := json.Unmarshal([]byte(moepool(t, "plan", "--json", "--hosts", hosts, "--rows", "4", "--simulate", "3,8")), &simulated); err != nil {
		t.Fatal(err)
	}
	if len(simulated) != 2 || simulated[0].Workers != 3 || simulated[1].Workers != 8 || simulated[1].Asked <= simulated[0].Asked {
		t.Errorf("%+v", simulated)
	}
	for _, wrong := range []struct {
		args string
		code int
		want string
	}{
		{"plan", exitUsage, "--hosts"},
		{"plan --hosts /nowhere", exitFailure, "/nowhere"},
		{"plan --like gpt-5 --hosts " + hosts, exitUsage, "qwen3-30b-a3b"},
		{"plan --parts 99 --hosts " + hosts, exitUsage, "parts"},
		{"plan --rows 0 --hosts " + hosts, exitUsage, "0 rows"},
		{"plan --simulate 1 --hosts " + hosts, exitUsage, "1 workers"},
	} {
		if stderr := moepoolFails(t, wrong.code, strings.Fields(wrong.args)...); !strings.Contains(stderr, wrong.want) {
			t.Errorf("%s: %q lacks %q", wrong.args, stderr, wrong.want)
		}
	}
}
