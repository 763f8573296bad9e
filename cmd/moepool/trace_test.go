//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestTrace: a trace has a request of each worker for each layer and step, computing lies within its request, and the workers of a layer are
// asked at once, not one after another.
func TestTrace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "trace.json")
	const tokens = 9
	report := runJSON(t, "--workers", "2", "--threads", "1", "--arena-dir", "none", "--trace", path, "--ignore-eos", "--raw", "--max-tokens", "9", demoPrompt)
	if len(report.Tokens) != tokens {
		t.Fatal(report.Error)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var events []traceEvent
	if err := json.Unmarshal(text, &events); err != nil {
		t.Fatal(err)
	}
	names, requests, computed := map[int]any{}, map[int][]traceEvent{}, 0
	for _, e := range events {
		switch e.Name {
		case "thread_name":
			names[e.Thread] = e.Arguments["name"]
		case "request":
			requests[e.Thread] = append(requests[e.Thread], e)
		case "compute":
			computed++
			all := requests[e.Thread]
			if r := all[len(all)-1]; e.Begin < r.Begin-1 || e.Begin+e.Duration > r.Begin+r.Duration+1 {
				t.Errorf("%+v is not within %+v", e, r)
			}
		}
	}
	most := 5 * (1 + tokens - 1) // layers; the prompt is one step
	if len(names) != 2 || computed == 0 || len(requests[1]) > most || len(requests[1])+len(requests[2]) < most {
		t.Fatalf("%d workers with %d and %d requests, %d computed", len(names), len(requests[1]), len(requests[2]), computed)
	}
	overlapping := 0
	for _, a := range requests[1] {
		for _, b := range requests[2] {
			if a.Begin < b.Begin+b.Duration && b.Begin < a.Begin+a.Duration {
				overlapping++
			}
		}
	}
	if overlapping < most/2 {
		t.Errorf("only %d of %d layers have requests of both workers at once", overlapping, most)
	}
	if stderr := moepoolFails(t, exitUsage, "run", "--trace", "/nowhere/trace", demoPrompt); stderr == "" {
		t.Error("a folder that does not exist is not said")
	}
}
