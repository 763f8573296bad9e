//go:build linux

package main

import (
	"encoding/json"
	"math"
	"testing"
)

// The demo model's perplexity on its held-out text: float32 as transformers computes it, q8 within 1 % of that; and
// q8's divergence from float32.
func TestEvalDemo(t *testing.T) {
	if underRace {
		t.Skip("minutes of computing under the race detector, which TestEvalBudgets shows the same goroutines")
	}
	t.Parallel()
	var reference struct {
		Perplexity float64 `json:"perplexity"`
		NLL        float64 `json:"nll_sum"`
		Tokens     int     `json:"predicted_tokens"`
	}
	readJSON(t, "../../testdata/demo/reference.json", &reference)
	for format, within := range map[string]float64{"q8": 0.01, "q4": 0.02, "mxfp4": 0.025} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			arguments := []string{"eval", "--json", "--format", format, "--arena-dir", "none", "../../testdata/demo/heldout.txt"}
			compared := format == "q8" && !testing.Short() // takes twice the time
			if compared {
				arguments = append(arguments, "--reference-format", "f32")
			}
			var rows []evalRow
			mustUnmarshal(t, moepool(t, arguments...), &rows)
			row := rows[len(rows)-1]
			if len(rows) != 1 && !compared || row.Format != format || row.Phase != "prefill" || row.Tokens != reference.Tokens {
				t.Fatalf("rows %+v, the reference predicts %d tokens", rows, reference.Tokens)
			}
			requireNear(t, format, row.Perplexity, reference.Perplexity, within)
			if p := math.Exp(row.NLL / float64(row.Tokens)); math.Abs(p-row.Perplexity) > 1e-9*p {
				t.Errorf("perplexity %v is not exp(nll/tokens) = %v", row.Perplexity, p)
			}
			if (row.KLDMean != nil) != compared {
				t.Fatalf("row %+v", row)
			}
			if !compared {
				return
			}
			if len(rows) != 2 || rows[0].Arm != armReference || rows[0].Format != "f32" || rows[0].Perplexity != *row.ReferencePerplexity {
				t.Errorf("the reference's row: %+v", rows[0])
			}
			requireNear(t, "f32", *row.ReferencePerplexity, reference.Perplexity, 1e-4)
			if !(*row.KLDMean > 0 && *row.KLDMean <= 0.0015) {
				t.Errorf("mean KLD %v, want at most 0.0015", *row.KLDMean)
			}
			if *row.ReferenceFormat != "f32" || *row.KLDP999 < *row.KLDMean || *row.KLDMax < *row.KLDP999 || *row.RMSDeltaP <= 0 || *row.SameTopP < 0.9 || *row.SameTopP >= 1 {
				t.Errorf("divergence %+v", row)
			}
		})
	}
}

func requireNear(t *testing.T, what string, perplexity, reference, within float64) {
	t.Helper()
	off := perplexity/reference - 1
	t.Logf("%s: perplexity %.4f, reference %.4f (%+.4f %%)", what, perplexity, reference, 100*off)
	if math.Abs(off) > within {
		t.Errorf("%s: perplexity %v is more than %g away from %v", what, perplexity, within, reference)
	}
}

// A run against itself diverges nowhere, and a reference needs a valid format.
func TestEvalReference(t *testing.T) {
	t.Parallel()
	text := writeFile(t, "And it came to pass in those days, that there went out a decree.")
	var rows []evalRow
	mustUnmarshal(t, moepool(t, "eval", "--json", "--format", "q8", "--reference-format", "q8", "--arena-dir", "none", text), &rows)
	if r := rows[1]; *r.KLDMax != 0 || *r.RMSDeltaP != 0 || *r.SameTopP != 1 || *r.ReferencePerplexity != r.Perplexity || r.Phase != "prefill" {
		t.Errorf("against itself: %+v", r)
	}
	for _, flags := range [][]string{{"--reference-format", "q5"}, {"--reference-format", "f32", "--reference-dense-format", "q5"}, {"--reference-dense-format", "q8"}} {
		moepoolFails(t, exitUsage, append([]string{"eval", text}, flags...)...)
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
