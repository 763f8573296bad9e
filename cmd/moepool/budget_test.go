//go:build linux

package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/generation"
	"github.com/moepool/moepool/kernels"
)

// TestBudgetGoldens runs the model under the plain budget rule (prefill governed, no rescue) over NATS with two workers, against the
// fixture's runs of transformers with that rule.
func TestBudgetGoldens(t *testing.T) {
	t.Parallel()
	dir := tiny("qwen3_moe")
	var golden struct {
		Runs []struct {
			Run      string
			Prompt   int
			Budget   int
			Resident []int32
			Safe     int `json:"greedy_safe_steps"`
		} `json:"model_runs"`
	}
	readJSON(t, dir+"/golden_budget.json", &golden)
	tensors, err := checkpoint.OpenTensors(dir + "/golden_budget_model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tensors.Close() })
	inputs, err := checkpoint.OpenTensors(dir + "/golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inputs.Close() })
	server := newServer(t)
	for _, run := range golden.Runs {
		t.Run(fmt.Sprintf("%s.p%d", run.Run, run.Prompt), func(t *testing.T) {
			resident := "none"
			for i, id := range run.Resident {
				if i == 0 {
					resident = fmt.Sprint(id)
				} else {
					resident += fmt.Sprintf(",%d", id)
				}
			}
			chosen, err := coordinator.ParseResidency(resident)
			if err != nil {
				t.Fatal(err)
			}
			c := setup{
				model: dir, format: kernels.F32, parts: 1, workers: 2, threads: 1, server: server,
				budget: budget.Policy{Count: run.Budget, Prefill: true}, chosen: chosen,
			}.open(t)
			prefix := fmt.Sprintf("%s.p%d.", run.Run, run.Prompt)
			prompt := goldenInts(t, inputs, fmt.Sprintf("p%d.input_ids", run.Prompt))
			r, err := c.Generate(t.Context(), coordinator.Request{
				Prompt: coordinator.Prompt{Tokens: prompt}, MaxTokens: 16, IgnoreEOS: true, KeepLogits: true,
			}, nil, func(generation.Piece) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			want := goldenFloats(t, tensors, prefix+"logits")
			if worst := largestDifference(r.Logits[:len(want)], want); worst > 5e-4 {
				t.Errorf("logits differ by %g", worst)
			}
			if greedy := goldenInts(t, tensors, prefix+"greedy_ids"); !slices.Equal(r.Tokens[:run.Safe], greedy[:run.Safe]) {
				t.Errorf("tokens %v, golden %v (%d are safe)", r.Tokens, greedy, run.Safe)
			}
			if totals := c.Engine.Totals(); totals.DroppedExperts == 0 || totals.DroppedMass == 0 || totals.DroppedBytes == 0 {
				t.Errorf("nothing was dropped: %+v", totals)
			}
		})
	}
}
