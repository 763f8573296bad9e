//go:build linux

package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moepool/moepool/cmd/moepool/internal/bench"
	"github.com/moepool/moepool/kernels"
)

// benchKeys are the keys of each row of `bench --json`, in this order.
var benchKeys = []string{
	"test", "rows", "format", "kernels", "threads", "workers", "best_ms", "median_ms", "gbps", "gops", "tokens_per_s", "sd", "roofline_pct",
}

// tinyBench are command lines that take little, and what their rows are.
var tinyBench = map[string]struct {
	args     []string
	tests    []string // of the rows
	measured []string // keys that hold a positive number in every row
}{
	"machine": {
		[]string{"--threads", "1", "--memory", "4", "--disk", "."},
		[]string{"read", "int8", "f32", "disk"}, []string{"threads", "best_ms", "median_ms"},
	},
	"layer": {
		[]string{"--experts", "5", "--top-k", "2", "--hidden", "64", "--ffn", "96", "--rows", "1,3", "--calls", "2", "--threads", "1", "--memory", "4", "--format", "bf16"},
		[]string{"layer", "layer"}, []string{"rows", "threads", "best_ms", "median_ms", "gbps", "gops", "roofline_pct"},
	},
	"kernels": {
		[]string{"--outputs", "64", "--columns", "96", "--rows", "2", "--calls", "2", "--memory", "4", "--format", "q8,f32", "--kernels", "generic"},
		[]string{"cache", "memory", "cache", "memory"}, []string{"rows", "threads", "best_ms", "median_ms", "gbps", "gops", "roofline_pct"},
	},
	"model": {
		[]string{"--model", tiny("qwen3_moe"), "--pp", "8,4", "--tg", "3", "--reps", "2", "--workers", "2", "--arena-dir", "none", "--memory", "4"},
		[]string{"pp8", "pp4", "tg3"}, []string{"rows", "threads", "workers", "best_ms", "median_ms", "tokens_per_s", "sd"},
	},
}

func TestBenchJSON(t *testing.T) {
	t.Parallel()
	for command, c := range tinyBench {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			text := moepool(t, append([]string{"bench", command, "--json"}, c.args...)...)
			var rows []map[string]any
			mustUnmarshal(t, text, &rows)
			var tests []string
			for i, r := range rows {
				tests = append(tests, fmt.Sprint(r["test"]))
				if len(r) != len(benchKeys) {
					t.Errorf("row %d has %d keys, want %d", i, len(r), len(benchKeys))
				}
				for _, key := range benchKeys {
					if _, found := r[key]; !found {
						t.Errorf("row %d lacks %s", i, key)
					}
				}
				if command == "model" {
					for _, key := range []string{"gbps", "roofline_pct"} {
						if v, _ := r[key].(float64); (v > 0) != strings.HasPrefix(tests[i], "tg") {
							t.Errorf("row %d (%s): %s is %v", i, tests[i], key, r[key])
						}
					}
				}
				for _, key := range c.measured {
					if v, ok := r[key].(float64); !ok || v <= 0 {
						t.Errorf("row %d: %s is %v", i, key, r[key])
					}
				}
			}
			if !slices.Equal(tests, c.tests) {
				t.Errorf("tests %q, want %q", tests, c.tests)
			}
			var typed []bench.Row // names and types as the package says
			decoder := json.NewDecoder(strings.NewReader(text))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&typed); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBenchOutputs(t *testing.T) {
	t.Parallel()
	args := append([]string{"bench", "layer"}, tinyBench["layer"].args...)
	lines, err := csv.NewReader(strings.NewReader(moepool(t, append(args, "--output", "csv")...))).ReadAll()
	if err != nil || len(lines) != 3 || !slices.Equal(lines[0], benchKeys) {
		t.Errorf("csv: %v %q", err, lines)
	}
	markdown := strings.Split(strings.TrimSpace(moepool(t, append(args, "--output", "md")...)), "\n")
	if len(markdown) != 4 || !strings.HasPrefix(markdown[0], "| test | rows |") || !strings.HasPrefix(markdown[1], "| --- | ---: |") {
		t.Errorf("md: %q", markdown)
	}
	p := newProcess(t, args...)
	p.Env = append(p.Env, "MOEPOOL_OUTPUT=md")
	p.start(t)
	if code := p.await(t, waitLimit); code != 0 || !strings.HasPrefix(p.stdout.String(), "| test | rows |") {
		t.Errorf("variables: exit code %d\n%s%s", code, p.stdout.String(), p.stderr.String())
	}
	profile := filepath.Join(t.TempDir(), "cpu")
	table := moepool(t, append(args, "--cpuprofile", profile)...)
	if !strings.Contains(table, "% of roofline") {
		t.Errorf("table:\n%s", table)
	}
	if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
		t.Errorf("--cpuprofile: %v", err)
	}
}

func TestBenchRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"bench", exitUsage, "machine, layer, kernels or model"},
		{"bench disk", exitUsage, `"disk"; valid: machine`},
		{"bench machine 3", exitUsage, "takes no argument"},
		{"bench machine --threads 100000", exitUsage, "valid are 1 to"},
		{"bench machine --memory 1000000", exitFailure, "memory to read: 977 GiB needed, available are"},
		{"bench machine --disk /proc/version", exitUsage, "is not a folder"},
		{"bench machine --output xml", exitUsage, "valid are table, md, csv"},
		{"bench machine --json --output md", exitUsage, "exclude each other"},
		{"bench layer --format q9", exitUsage, "unknown weights format"},
		{"bench layer --kernels mmx", exitUsage, "unknown kernels"},
		{"bench layer --rows 1,0", exitUsage, "--rows has 0"},
		{"bench layer --rows x", exitUsage, `"x" for "--rows" flag: not a number (see`},
		{"bench layer --seconds soon", exitUsage, `"soon" for "--seconds" flag: not a number (see`},
		{"bench layer --quiet=perhaps", exitUsage, "flag: neither true nor false (see"},
		{"bench layer --layers 99999999999999999999", exitUsage, "flag: out of range (see"},
		{"bench layer --top-k 200", exitUsage, "--top-k is 200, valid are 1 to 128"},
		{"bench layer --node 77", exitUsage, "--node"},
		{"bench layer --node -3", exitUsage, "--node"},
		{"bench layer --hidden 100000 --ffn 100000 --experts 60000 --memory 4", exitFailure, "1.0 PiB needed, available are"},
		{"bench layer --calls -1", exitUsage, "--calls is -1"},
		{"bench layer --seconds NaN", exitUsage, "--seconds is NaN"},
		{"bench kernels --columns 0", exitUsage, "--columns is 0"},
		{"bench kernels --format q8,q9", exitUsage, "unknown weights format"},
		{"bench model --pp 0 --tg 0", exitUsage, "name no test"},
		{"bench model --reps 0", exitUsage, "--reps is 0"},
		{"bench model --pp 100000", exitFailure, "--context"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			if stderr := moepoolFails(t, c.code, strings.Fields(c.args)...); !strings.Contains(stderr, c.says) {
				t.Errorf("stderr lacks %q:\n%s", c.says, stderr)
			}
		})
	}
}

// Ctrl-C ends each command, in the midst of a measurement, and its workers.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	for command, args := range map[string][]string{
		"machine": {"--memory", "256"},
		"layer":   {"--experts", "8", "--rows", "512", "--seconds", "3600", "--memory", "4", "--kernels", "generic"},
		"kernels": {"--seconds", "3600", "--memory", "4", "--rows", "64", "--kernels", kernels.Available()[0]},
		"model":   {"--reps", "1000000", "--arena-dir", "none"},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			profile := filepath.Join(t.TempDir(), "cpu")
			p := startProcess(t, append([]string{"bench", command, "--cpuprofile", profile}, args...)...)
			waitFor(t, waitLimit, func() (bool, string) {
				_, err := os.Stat(profile) // written when measuring begins
				return err == nil, "the start of the measurement; stderr:\n" + p.stderr.String()
			})
			workers := childProcesses(p.Process.Pid)
			if command == "model" && len(workers) == 0 {
				t.Error("no workers run")
			}
			signalProcess(t, p.Process.Pid, syscall.SIGINT)
			if code := p.await(t, waitLimit); code != exitInterrupted {
				t.Errorf("exit code %d, want %d; stderr:\n%s", code, exitInterrupted, p.stderr.String())
			}
			if p.stdout.String() != "" {
				t.Errorf("prints %q", p.stdout.String())
			}
			assertGone(t, workers, waitLimit)
		})
	}
}
