//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint"
)

const demoPrompt = "And the LORD spake unto Moses, saying,"

func TestRunPrintsText(t *testing.T) {
	t.Parallel()
	text := moepool(t, "run", "--quiet", "--max-tokens", "12", demoPrompt)
	report := runJSON(t, "--max-tokens", "12", demoPrompt)
	if strings.TrimSuffix(text, "\n") != report.Text {
		t.Errorf("run printed %q, run --json %q", text, report.Text)
	}
	if len(report.Tokens) != 12 || report.FinishReason != "length" || report.Usage.CompletionTokens != 12 || report.Usage.PromptTokens == 0 {
		t.Errorf("unexpected report %+v", report)
	}
}

func TestRunReportsWorkers(t *testing.T) {
	t.Parallel()
	report := runJSON(t, "--workers", "3", "--max-tokens", "4", "--arena-dir", t.TempDir(), demoPrompt)
	if len(report.Workers) != 3 {
		t.Fatalf("%d workers, want 3", len(report.Workers))
	}
	pids, experts := map[int]bool{}, 0
	for _, w := range report.Workers {
		pids[w.PID] = true
		experts += w.Experts
		if w.Kernels == "" || len(w.CPUs) == 0 || w.Arena.Files == 0 || w.Arena.PackedBytes == 0 || w.Arena.PackedBytes != w.Arena.Bytes ||
			w.Arena.ReusedBytes != 0 || w.Pages.Local == 0 || w.Pages.Remote != 0 || w.RSSAnon == 0 {
			t.Errorf("worker report %+v", w)
		}
	}
	if len(pids) != 3 || pids[os.Getpid()] {
		t.Errorf("pids %v: want three processes", pids)
	}
	if want := 5 * 16; experts != want {
		t.Errorf("%d experts on the workers, the model has %d", experts, want)
	}
	if report.Budget == nil || report.Budget.Policy != "off" || report.Budget.DroppedExperts != 0 {
		t.Errorf("budget %+v", report.Budget)
	}
	if report.Experts == nil || report.Experts.Hits == 0 || report.Experts.Misses != 0 {
		t.Errorf("experts %+v", report.Experts)
	}
}

// TestRunAgainstGolden runs worker processes and compares with the demo model's golden.
func TestRunAgainstGolden(t *testing.T) {
	t.Parallel()
	golden, err := checkpoint.OpenTensors("../../testdata/demo/golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer golden.Close()
	for i, prompt := range []string{demoPrompt, "Elizabeth could not help smiling as she"} {
		prefix := []string{"p0.", "p1."}[i]
		file := filepath.Join(t.TempDir(), "logits.safetensors")
		report := runJSON(t, "--raw", "--format", "f32", "--max-tokens", "24", "--ignore-eos", "--workers", "2", "--arena-dir", "none",
			"--dump-logits", file, prompt)
		want := goldenInts(t, golden, prefix+"greedy_ids")
		if !slices.Equal(report.Tokens, want) {
			t.Errorf("%q: tokens %v, golden %v", prompt, report.Tokens, want)
		}
		dumped, err := checkpoint.OpenTensors(file)
		if err != nil {
			t.Fatal(err)
		}
		got := dumpedLogits(t, dumped, report.Usage.PromptTokens+24-1, 2048)
		logits := goldenFloats(t, golden, prefix+"logits") // of the prompt
		if worst := largestDifference(got[:len(logits)], logits); worst > 5e-4 {
			t.Errorf("%q: logits differ by %g from the golden", prompt, worst)
		} else {
			t.Logf("%q: largest difference of logits %.2g", prompt, worst)
		}
		dumped.Close()
	}
}

func TestRunFromFileStdinAndTokens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prompt.txt")
	if err := os.WriteFile(file, []byte(demoPrompt), 0o600); err != nil {
		t.Fatal(err)
	}
	want := runJSON(t, "--max-tokens", "8", "--raw", demoPrompt)
	if got := runJSON(t, "--max-tokens", "8", "--file", file); !slices.Equal(got.Tokens, want.Tokens) {
		t.Errorf("--file gives %v, PROMPT %v", got.Tokens, want.Tokens)
	}
	p := newProcess(t, "run", "--json", "--max-tokens", "8", "--raw")
	p.Stdin = strings.NewReader(demoPrompt)
	p.start(t)
	if code := p.await(t, waitLimit); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr.String())
	}
	var got runReport
	if err := json.NewDecoder(bytes.NewReader([]byte(p.stdout.String()))).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Tokens, want.Tokens) {
		t.Errorf("standard input gives %v, PROMPT %v", got.Tokens, want.Tokens)
	}
	one := runJSON(t, "--max-tokens", "3", "--prompt-tokens", "1,2,3")
	if one.Usage.PromptTokens != 3 {
		t.Errorf("%d prompt tokens from 1,2,3", one.Usage.PromptTokens)
	}
}

func TestRunSampling(t *testing.T) {
	t.Parallel()
	sample := func(seed string) []int32 {
		return runJSON(t, "--temperature", "1", "--seed", seed, "--max-tokens", "16", "--ignore-eos", demoPrompt).Tokens
	}
	first := sample("1")
	if again := sample("1"); !slices.Equal(first, again) {
		t.Errorf("seed 1 gives %v, then %v", first, again)
	}
	if other := sample("2"); slices.Equal(first, other) {
		t.Errorf("seeds 1 and 2 give the same tokens")
	}
}

func TestRunStops(t *testing.T) {
	t.Parallel()
	whole := runJSON(t, "--max-tokens", "40", "--raw", demoPrompt)
	stop := whole.Text[len(whole.Text)/2:][:5]
	cut := runJSON(t, "--max-tokens", "40", "--raw", "--stop", stop, demoPrompt)
	if want, _, _ := strings.Cut(whole.Text, stop); cut.Text != want || cut.FinishReason != "stop" {
		t.Errorf("--stop %q: text %q (%s), want %q", stop, cut.Text, cut.FinishReason, want)
	}
}

func TestEnvironmentVariables(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "run", "--json", demoPrompt)
	p.Env = append(p.Env, "MOEPOOL_MAX_TOKENS=3")
	p.start(t)
	p.await(t, waitLimit)
	var r runReport
	if err := json.Unmarshal([]byte(p.stdout.String()), &r); err != nil || len(r.Tokens) != 3 {
		t.Errorf("MOEPOOL_MAX_TOKENS=3 gives %d tokens (%v)", len(r.Tokens), err)
	}
	p = newProcess(t, "run", "--json", demoPrompt)
	p.Env = append(p.Env, "MOEPOOL_MAX_TOKENS=many")
	p.start(t)
	if code := p.await(t, waitLimit); code != exitUsage || !strings.Contains(p.stderr.String(), "MOEPOOL_MAX_TOKENS") {
		t.Errorf("exit code %d, stderr %q", code, p.stderr.String())
	}
}

func TestErrorsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code int
		args []string
		want []string
	}{
		{exitUsage, []string{"run", "--kernels", "mmx", "x"}, []string{"mmx", "generic"}},
		{exitUsage, []string{"run", "--format", "q3", "x"}, []string{"q3", "bf16"}},
		{exitFailure, []string{"run", "--parts", "2", "x"}, []string{"--parts", "2", "1"}},
		{exitFailure, []string{"run", "--model", "/nowhere", "x"}, []string{"/nowhere"}},
		{exitUsage, []string{"run", "--prompt-tokens", "1,x"}, []string{`"x"`}},
		{exitFailure, []string{"run", "--prompt-tokens", "99999"}, []string{"99999", "2047"}},
		{exitFailure, []string{"run", "--context", "4", "--prompt-tokens", "1,2,3,4,5"}, []string{"5", "4"}},
		{exitUsage, []string{"run", "--expert-budget", "rank=0.1", "x"}, []string{"--expert-budget"}},
		{exitUsage, []string{"run", "--nope"}, []string{"--nope"}},
		{exitUsage, []string{"worker"}, []string{"--nats"}},
		{exitUsage, []string{"run", "--nats", "nats://127.0.0.1:1", "--trace", "t", "--on-missing", "fail", "x"}, []string{"--trace", "--on-missing", "--nats"}},
		{exitUsage, []string{"worker", "--node", "77", "--nats", "nats://127.0.0.1:1"}, []string{"77", "0"}},
		{exitUsage, []string{"synth", t.TempDir(), "--like", "gpt"}, []string{"gpt", "qwen3-30b-a3b"}},
	} {
		stderr := moepoolFails(t, c.code, c.args...)
		for _, w := range c.want {
			if !strings.Contains(stderr, w) {
				t.Errorf("moepool %v: %q does not name %q", c.args, stderr, w)
			}
		}
	}
}
