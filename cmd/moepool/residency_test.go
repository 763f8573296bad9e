//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moepool/moepool/internal/lowmemory"
)

// profiles gives the profiles of an arena folder's workers.
func profiles(t testing.TB, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*", "hottest.json"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// hottest is how many expert parts a profile names.
func hottest(t testing.TB, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Version int          `json:"moepool_profile"`
		Hottest [][3]float64 `json:"hottest"`
	}
	if err := json.Unmarshal(text, &p); err != nil || p.Version != 1 {
		t.Fatalf("%s: version %d, %v", path, p.Version, err)
	}
	return len(p.Hottest)
}

// chill takes the arenas' pages out of memory.
func chill(t testing.TB, dir string) {
	t.Helper()
	files, err := arenaFiles(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	if err := lowmemory.Forget(dir); err != nil {
		t.Fatal(err)
	}
}

// TestResidentLimit: with room for 40 % of the experts the answer is the same, the ledger keeps to its limit, and what was needed is remembered.
func TestResidentLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ask := func(args ...string) runReport {
		return runJSON(t, append([]string{"--arena-dir", dir, "--max-tokens", "16", demoPrompt}, args...)...)
	}
	whole := ask("--resident-limit", "none")
	if r := whole.Workers[0].Residency; r.Limit != 0 || r.GhostBytes != -1 || r.Evictions != 0 || r.Warm != "none" {
		t.Errorf("without a limit: %+v", r)
	}
	limit := whole.Workers[0].Arena.Bytes * 2 / 5
	trace := filepath.Join(t.TempDir(), "trace")
	for _, args := range [][]string{nil, {"--warm", "hottest"}, {"--warm", "all"}, {"--workers", "2"}, {"--prefetch", "off", "--huge-pages", "never", "--mlock"}} {
		r := ask(append(args, "--resident-limit", fmt.Sprint(limit), "--residency-trace", trace)...)
		if !slices.Equal(whole.Tokens, r.Tokens) {
			t.Errorf("%q: tokens %v, without a limit %v", args, r.Tokens, whole.Tokens)
		}
		for _, w := range r.Workers {
			x := w.Residency
			if x.Limit != limit/int64(len(r.Workers)) || x.Resident > x.Limit || x.Resident == 0 || x.Hits == 0 || x.Misses == 0 || x.Evictions == 0 || x.MissBytes == 0 {
				t.Errorf("%q: %+v", args, x)
			}
			if x.WarmDone != x.WarmTotal || (x.WarmTotal > 0) != (x.Warm != "none") || x.WarmTotal > x.Limit {
				t.Errorf("%q: warmed %+v", args, x)
			}
			name := trace
			if len(r.Workers) > 1 {
				name += "." + w.ID
			}
			text, err := os.ReadFile(name)
			if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || !strings.Contains(lines[0], w.ID) || !strings.Contains(lines[len(lines)-1], `"end"`) {
				t.Errorf("%q: trace %s: %v, from %.200s to %.200s", args, name, err, lines[0], lines[len(lines)-1])
			}
			os.Remove(name)
		}
	}
}

// TestWarm: after --warm all nothing has to be read, and hits say so.
func TestWarm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := runJSON(t, "--arena-dir", dir, "--max-tokens", "8", demoPrompt)
	chill(t, dir)
	cold := runJSON(t, "--arena-dir", dir, "--max-tokens", "8", demoPrompt)
	if cold.Experts.Misses == 0 {
		t.Fatalf("cold: %+v", cold.Experts)
	}
	chill(t, dir)
	warm := runJSON(t, "--arena-dir", dir, "--max-tokens", "8", "--warm", "all", demoPrompt)
	r := warm.Workers[0].Residency
	if warm.Experts.Misses != 0 || warm.Experts.Hits == 0 || r.WarmDone != r.WarmTotal || r.WarmTotal < warm.Workers[0].Arena.Bytes {
		t.Errorf("warm: %+v, %+v", warm.Experts, r)
	}
	chill(t, dir)
	hot := runJSON(t, "--arena-dir", dir, "--max-tokens", "8", "--warm", "hottest", demoPrompt) // the same prompt needs the same experts
	if r := hot.Workers[0].Residency; hot.Experts.Misses != 0 || r.WarmDone != r.WarmTotal || r.WarmTotal == 0 {
		t.Errorf("hottest: %+v, %+v", hot.Experts, r)
	}
	for _, r := range []runReport{cold, warm, hot} {
		if !slices.Equal(first.Tokens, r.Tokens) {
			t.Errorf("tokens %v, at first %v", r.Tokens, first.Tokens)
		}
	}
}

// TestProfileSurvives: a killed worker leaves the profile of the run before, and one that is damaged is said and replaced.
func TestProfileSurvives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model := []string{"--model", longModel(t), "--arena-dir", dir, "--raw", "--ignore-eos"}
	runJSON(t, append(model, "--max-tokens", "8", demoPrompt)...)
	paths := profiles(t, dir)
	if len(paths) != 1 || hottest(t, paths[0]) < 4 {
		t.Fatalf("profiles %q", paths)
	}
	before, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, append(append([]string{"run"}, model...), "--max-tokens", "4000", demoPrompt)...)
	waitFor(t, waitLimit, func() (bool, string) { return len(p.stdout.String()) > 20, "text; stderr: " + p.stderr.String() })
	workers := childProcesses(p.Process.Pid)
	for _, pid := range workers {
		signalProcess(t, pid, syscall.SIGKILL)
	}
	assertGone(t, workers, waitLimit)
	signalProcess(t, p.Process.Pid, syscall.SIGKILL)
	if after, err := os.ReadFile(paths[0]); err != nil || string(after) != string(before) {
		t.Errorf("the profile has changed: %v", err)
	}
	if err := os.WriteFile(paths[0], before[:len(before)/2], 0o600); err != nil { // as no crash leaves it
		t.Fatal(err)
	}
	r := runJSON(t, append(model, "--max-tokens", "8", "--warm", "hottest", demoPrompt)...)
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "hottest.json") }) {
		t.Errorf("notes %q", r.Notes)
	}
	hottest(t, paths[0])
}
