//go:build linux

package main

import (
	"encoding/json"
	"math"
	"testing"
)

// The demo model's perplexity on its held-out text: float32 as transformers computes it, q8 within 1 % of that.
func TestEvalDemo(t *testing.T) {
	t.Parallel()
	var reference struct {
		Perplexity float64 `json:"perplexity"`
		NLL        float64 `json:"nll_sum"`
		Tokens     int     `json:"predicted_tokens"`
	}
	readJSON(t, "../../testdata/demo/reference.json", &reference)
	for format, within := range map[string]float64{"f32": 1e-4, "q8": 0.01, "q4": 0.02} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && format == "f32" {
				t.Skip("SKIPPED: long")
			}
			var rows []evalRow
			mustUnmarshal(t, moepool(t, "eval", "--json", "--format", format, "--arena-dir", "none", "../../testdata/demo/heldout.txt"), &rows)
			if len(rows) != 1 || rows[0].Format != format || rows[0].Tokens != reference.Tokens {
				t.Fatalf("rows %+v, the reference predicts %d tokens", rows, reference.Tokens)
			}
			off := rows[0].Perplexity/reference.Perplexity - 1
			t.Logf("%s: perplexity %.4f, reference %.4f (%+.4f %%)", format, rows[0].Perplexity, reference.Perplexity, 100*off)
			if math.Abs(off) > within {
				t.Errorf("more than %g away", within)
			}
			if p := math.Exp(rows[0].NLL / float64(rows[0].Tokens)); math.Abs(p-rows[0].Perplexity) > 1e-9*p {
				t.Errorf("perplexity %v is not exp(nll/tokens) = %v", rows[0].Perplexity, p)
			}
		})
	}
}

func TestSynthPackRun(t *testing.T) {
	t.Parallel()
	dir, arena := t.TempDir()+"/model", t.TempDir()
	var written synthReport
	mustUnmarshal(t, moepool(t, "synth", dir, "--json", "--like", "qwen3-30b-a3b", "--layers", "1", "--experts", "16", "--vocabulary", "512"), &written)
	if written.Bytes < 100<<20 {
		t.Errorf("synth wrote %+v", written)
	}
	model := []string{"--model", dir, "--arena-dir", arena, "--workers", "2"}
	var packed []struct {
		Worker  string
		Experts int
		Damaged int
		Arena   struct {
			Packed int64 `json:"packed_bytes"`
			Reused int64 `json:"reused_bytes"`
		}
	}
	mustUnmarshal(t, moepool(t, append([]string{"pack", "--json"}, model...)...), &packed)
	if len(packed) != 2 || packed[0].Experts+packed[1].Experts != 16 || packed[0].Arena.Packed == 0 {
		t.Fatalf("pack says %+v", packed)
	}
	mustUnmarshal(t, moepool(t, append([]string{"pack", "--json", "--verify"}, model...)...), &packed)
	for _, p := range packed {
		if p.Arena.Packed != 0 || p.Arena.Reused == 0 || p.Damaged != 0 {
			t.Errorf("pack --verify says %+v", p)
		}
	}
	r := runJSON(t, append(model, "--prompt-tokens", "1,2,3", "--max-tokens", "3", "--ignore-eos")...)
	for _, w := range r.Workers {
		if w.Arena.PackedBytes != 0 || w.Arena.ReusedBytes == 0 || !underRace && w.RSSAnon > w.Arena.Bytes/4 {
			t.Errorf("after pack, run has %+v", w)
		}
	}
}

func TestDoctorJSON(t *testing.T) {
	t.Parallel()
	var report map[string]json.RawMessage
	mustUnmarshal(t, moepool(t, "doctor", "--json", "--model", tiny("qwen3_moe"), "--arena-dir", t.TempDir()), &report)
	for _, key := range []string{"host", "model", "findings"} {
		if report[key] == nil {
			t.Errorf("doctor --json lacks %s", key)
		}
	}
	moepoolFails(t, exitFailure, "doctor", "--model", t.TempDir())
}

func TestVersionJSON(t *testing.T) {
	t.Parallel()
	var v versionReport
	mustUnmarshal(t, moepool(t, "version", "--json"), &v)
	if v.Version == "" || v.Protocol < 1 || len(v.Kernels) == 0 {
		t.Errorf("version says %+v", v)
	}
}
