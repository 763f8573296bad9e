//go:build linux && amd64 && !purego

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/moepool/moepool/kernels"
)

const refusal = "kernels avx512 are used instead of amx: the kernel refuses this process the use of AMX"

// With AMXTRAP=1 and nothing that emulates, the kernel refuses AMX: that is said once, though each process finds it, and shows in the JSON;
// the answer is what avx512 computes.
func TestRefusedAMX(t *testing.T) {
	t.Parallel()
	if cpu.X86.HasAMXTile || os.Getenv("AMXTRAP") != "" || !slices.Contains(kernels.Available(), "avx512") {
		t.Skip("NOT TESTED: AMX can be used here, or AVX-512 can't")
	}
	moepool := func(code int, args ...string) *process {
		p := newProcess(t, args...)
		p.Env = append(p.Env, "AMXTRAP=1")
		p.start(t)
		if got := p.await(t, waitLimit); got != code {
			t.Fatalf("%v: exit code %d, want %d; stderr:\n%s", args, got, code, p.stderr.String())
		}
		return p
	}
	said := func(p *process) int { return strings.Count(p.stderr.String(), refusal) }

	var report runReport
	p := moepool(0, "run", "--json", "--workers", "2", "--arena-dir", "none", "--max-tokens", "2", "And it")
	mustUnmarshal(t, p.stdout.String(), &report)
	if said(p) != 1 || strings.Count(strings.Join(report.Notes, "\n"), refusal) != 1 {
		t.Errorf("run's notes are %q; stderr:\n%s", report.Notes, p.stderr.String())
	}
	for _, w := range report.Workers {
		if w.Kernels != "avx512" {
			t.Errorf("worker %s has kernels %s", w.ID, w.Kernels)
		}
	}

	var checked struct {
		Host struct {
			Refused string `json:"amx_refused"`
			Chosen  string `json:"kernels_chosen"`
		} `json:"host"`
	}
	p = moepool(0, "doctor", "--json", "--arena-dir", "none")
	mustUnmarshal(t, p.stdout.String(), &checked)
	if said(p) != 1 || !strings.HasPrefix(checked.Host.Refused, "the kernel refuses") || checked.Host.Chosen != "avx512" {
		t.Errorf("doctor says %+v; stderr:\n%s", checked.Host, p.stderr.String())
	}

	p = moepool(exitUsage, "run", "--kernels", "amx", "And it")
	if want := `--kernels: kernels "amx" can't be used: the kernel refuses`; !strings.Contains(p.stderr.String(), want) {
		t.Errorf("--kernels amx: want %q in:\n%s", want, p.stderr.String())
	}
	if p = moepool(0, "run", "--kernels", "avx2", "--arena-dir", "none", "--max-tokens", "1", "And it"); said(p) != 0 {
		t.Errorf("said to one who asked for other kernels:\n%s", p.stderr.String())
	}
}

// A CPU without AMX says which features are missing.
func TestKernelsWithoutAMX(t *testing.T) {
	t.Parallel()
	if slices.Contains(kernels.Available(), "amx") {
		t.Skip("NOT TESTED: AMX can be used here")
	}
	stderr := moepoolFails(t, exitUsage, "run", "--kernels", "amx", "And it")
	if !strings.Contains(stderr, `--kernels: kernels "amx" need CPU features that are missing here: amx_tile, amx_int8`) {
		t.Error(stderr)
	}
}
