//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/internal/lowmemory"
)

// largeModel is a model whose experts are far larger than all that the program's processes need beside them; experts is how many
// each of its four layers has, of 2.4 MB in q8.
func largeModel(t testing.TB, dir string, experts int) string {
	t.Helper()
	spec := synth.Tiny("qwen3_moe")
	spec.Layers, spec.DenseLayers, spec.Hidden, spec.ExpertIntermediate = 4, nil, 1024, 768
	spec.Experts, spec.TopK, spec.HeadDim = experts, max(2, experts/4), 64
	dir = filepath.Join(dir, "model")
	if err := synth.Write(dir, spec, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inMemoryGroup runs `run --json` in a memory group of its own. It must not be killed.
func inMemoryGroup(t *testing.T, limit int64, args ...string) runReport {
	t.Helper()
	g := lowmemory.ForTest(t, limit)
	p := newProcess(t, append([]string{"run", "--json"}, args...)...)
	g.Wrap(p.Cmd)
	p.start(t)
	code := p.await(t, waitLimit)
	u, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 || u.OOMKills > 0 {
		t.Fatalf("exit code %d, %d processes killed for lack of memory; stderr:\n%s", code, u.OOMKills, p.stderr.String())
	}
	var r runReport
	decoder := json.NewDecoder(strings.NewReader(p.stdout.String()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		t.Fatal(err)
	}
	t.Logf("limit %d MB: peak %d MB, experts %+v, notes %q", limit>>20, u.Peak>>20, r.Experts, r.Notes)
	return r
}

// A third of the experts' bytes is enough for all of the program: nothing is killed, next to nothing lies in anonymous memory, and the
// bits are those of a run that has room.
func TestThirdOfTheMemory(t *testing.T) {
	t.Parallel()
	if underRace {
		t.Skip("the race detector takes many times the memory of the program")
	}
	littleMemory(t, t.TempDir(), 16, 0, "none", "auto", "1/6")
}

// On two nodes each worker's experts come back to its own node. The model is smaller, since the VM is slow; what the processes need
// beside experts is therefore added to the limit.
func TestNUMAVMLittleMemory(t *testing.T) {
	inNUMAVM(t)
	for _, r := range littleMemory(t, ext4Folder(t), 4, 32<<20, "none") {
		assertLocal(t, r)
	}
}

// littleMemory runs a model with room for all, then in memory groups of a third of its experts' bytes and some more, with resident limits
// that leave it to the kernel (none), take what the group has room for (auto), or are a sixth of the experts.
func littleMemory(t *testing.T, dir string, expertsOfALayer int, more int64, limits ...string) (limited []runReport) {
	model := largeModel(t, dir, expertsOfALayer)
	run := []string{
		"--model", model, "--arena-dir", filepath.Join(dir, "arena"), "--workers", "2", "--ignore-eos", "--max-tokens", "8",
		"--temperature", "1", "--prompt-tokens", "5,400,17,33", "--dump-logits", filepath.Join(dir, "logits"),
	}
	logits := func() []byte {
		data, err := os.ReadFile(filepath.Join(dir, "logits"))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	room := runJSON(t, run...)
	want := logits()
	var experts int64
	for _, w := range room.Workers {
		experts += w.Arena.Bytes
	}
	if room.Experts.Misses > 0 || experts < 32<<20 {
		t.Fatalf("with room: %d misses, %d bytes of experts", room.Experts.Misses, experts)
	}
	for _, name := range limits {
		limit := name
		if name == "1/6" {
			limit = fmt.Sprint(experts / 6)
		}
		if err := lowmemory.Forget(filepath.Join(dir, "arena")); err != nil {
			t.Fatal(err)
		}
		r := inMemoryGroup(t, experts/3+more, append(run, "--resident-limit", limit)...)
		if got := logits(); !slices.Equal(r.Tokens, room.Tokens) || !bytes.Equal(got, want) {
			t.Errorf("--resident-limit %s: tokens %v, with room %v; logits are the same: %v", name, r.Tokens, room.Tokens, bytes.Equal(got, want))
		}
		for _, w := range r.Workers {
			if w.Residency.Limit > 0 && w.Residency.Resident > w.Residency.Limit {
				t.Errorf("--resident-limit %s: worker %s keeps %d bytes, its limit is %d", name, w.ID, w.Residency.Resident, w.Residency.Limit)
			}
			if w.RSSAnon > 24<<20 || w.Arena.Fallbacks > 0 {
				t.Errorf("--resident-limit %s: worker %s has %d bytes of anonymous memory; arena %+v", name, w.ID, w.RSSAnon, w.Arena)
			}
		}
		// More was read than fits: experts were given up and came again.
		if r.Experts.BytesRead < experts/3 || r.Experts.Misses == 0 {
			t.Errorf("--resident-limit %s: experts %+v", name, r.Experts)
		}
		limited = append(limited, r)
	}
	return limited
}
