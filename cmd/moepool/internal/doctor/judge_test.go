package doctor

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/numa/hostinfo"
)

var rewrite = flag.Bool("rewrite", false, "write the golden texts anew")

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// goodHost is a host with two nodes on which nothing is wrong.
func goodHost() *Facts {
	return &Facts{
		System: "linux/amd64", Kernel: "6.1.0", CPU: "Some CPU", Threads: 8,
		Topology: &numa.Topology{Known: true, Allowed: []int{0, 1, 2, 3, 4, 5, 6, 7}, Nodes: []numa.Node{
			{ID: 0, CPUs: []int{0, 1, 2, 3}, Cores: []int{0, 1}, MemoryBytes: 64 * gib, FreeBytes: 50 * gib, AvailableBytes: 60 * gib},
			{ID: 1, CPUs: []int{4, 5, 6, 7}, Cores: []int{4, 5}, MemoryBytes: 64 * gib, FreeBytes: 50 * gib, AvailableBytes: 60 * gib},
		}},
		MemNodes: []int{0, 1},
		Memory:   hostinfo.Memory{Total: 128 * gib, Free: 100 * gib, Available: 120 * gib},
		Cgroup:   hostinfo.Cgroup{Version: 2, Limit: hostinfo.Unlimited, Available: hostinfo.Unlimited},
		Calls:    numa.Permissions{SetAffinity: true, SetMempolicy: true, Mbind: true, MovePages: true},
		Features: []kernels.Feature{{Name: "avx2", Present: true}, {Name: "fma", Present: true}, {Name: "amx_tile"}},
		Runs:     []string{"avx2", "generic"}, Chosen: "avx2",
		HugeAnon: "madvise", HugeTmp: "advise", MaxMaps: 65530, Lock: 8 * mib,
		Arena: ArenaFacts{Dir: "/arena", Speed: 2000, Space: arena.Space{Dir: "/arena", FileSystem: "ext4", FreeBytes: 500 * gib, TotalBytes: 900 * gib, Writable: true}},
	}
}

// goodFit is a model that fits.
func goodFit() *Fit {
	return &Fit{
		Dir: "/model", Family: "qwen3_moe", Format: "q8", DenseFormat: "q8", KVFormat: "bf16", Layers: 48, MoELayers: 48, Experts: 128, TopK: 8,
		Parts: 1, Context: 8192, ExpertBytes: 28 * gib, TokenBytes: 28 * gib / 16, DenseBytes: gib, KVBytes: gib,
		Workers: []WorkerFit{{ID: "a", Node: 0, Bytes: 14 * gib}, {ID: "b", Node: 1, Bytes: 14 * gib}},
	}
}

func judge(h *Facts, m *Fit) *Report {
	r := &Report{Host: *h, Model: m}
	r.Findings = append(judgeHost(h), judgeArena(h)...)
	if m != nil {
		r.Findings = append(r.Findings, judgeModel(h, m)...)
	}
	return r
}

func TestNothingWrong(t *testing.T) {
	t.Parallel()
	r := judge(goodHost(), goodFit())
	for _, f := range r.Findings {
		if f.Level != OK || f.Fix != "" {
			t.Errorf("%+v", f)
		}
	}
	if r.Failed() {
		t.Error("failed")
	}
}

// Each case changes one thing of a good host or model; exactly one line changes its level, and says what to do.
func TestOneThingWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		change  func(h *Facts, m *Fit)
		level   Level
		subject string
		text    []string // in the finding's text
		fix     string   // in its fix
	}{
		{"another system", func(h *Facts, _ *Fit) { h.System = "darwin/arm64" }, Warn, "system", []string{"darwin/arm64", "no NUMA"}, "Linux"},
		{"cpu quota", func(h *Facts, _ *Fit) { h.Cgroup.CPUs = 2.5 }, Warn, "cpu quota", []string{"2.5 CPUs", "4 cores"}, "at most 2"},
		{"generic only", func(h *Facts, _ *Fit) { h.Runs, h.Chosen = []string{"generic"}, "generic" }, Warn, "kernels", []string{"generic"}, "AVX2"},
		{"slower kernels chosen", func(h *Facts, _ *Fit) { h.Chosen = "generic" }, Warn, "kernels", []string{"avx2 is quicker"}, "--kernels auto"},
		{"emulated AMX", func(h *Facts, _ *Fit) { h.Emulated = true }, Warn, "amx", []string{"AMXTRAP=1"}, "unset AMXTRAP"},
		{"refused AMX", func(h *Facts, _ *Fit) { h.Refused = "the kernel says no" }, Warn, "amx", []string{"not used", "the kernel says no"}, "arch_prctl"},
		{"cpuset without a node's memory", func(h *Facts, _ *Fit) { h.MemNodes = []int{0} }, Warn, "node 1", []string{"4-7", "forbids"}, "cpuset-mems"},
		{"no set_mempolicy", func(h *Facts, _ *Fit) { h.Calls.SetMempolicy = false }, Warn, "set_mempolicy", []string{"not permitted"}, "SYS_NICE"},
		{"no mbind", func(h *Facts, _ *Fit) { h.Calls.Mbind = false }, Warn, "mbind", []string{"not permitted"}, "SYS_NICE"},
		{"no move_pages", func(h *Facts, _ *Fit) { h.Calls.MovePages = false }, Warn, "move_pages", []string{"not permitted"}, "SYS_NICE"},
		{"no affinity", func(h *Facts, _ *Fit) { h.Calls.SetAffinity = false }, Warn, "sched_setaffinity", []string{"not permitted"}, "SYS_NICE"},
		{"balancing", func(h *Facts, _ *Fit) { h.Balances = true }, Warn, "numa balancing", nil, "kernel.numa_balancing=0"},
		{"no huge pages", func(h *Facts, _ *Fit) { h.HugeAnon = "never" }, Warn, "huge pages", []string{"anonymous never"}, "transparent_hugepage/enabled"},
		{"few mappings", func(h *Facts, _ *Fit) { h.MaxMaps = 1000 }, Warn, "max_map_count", []string{"1000"}, "vm.max_map_count="},
		{"memory unknown", func(h *Facts, _ *Fit) { h.Memory.Total = 0 }, Warn, "memory", []string{"unknown"}, ""},

		{"no arena folder", func(h *Facts, _ *Fit) { h.Arena = ArenaFacts{Dir: "/x", Error: "arena folder /x: is a file"} }, Warn, "folder",
			[]string{"is a file", "anonymous memory"}, "--arena-dir"},
		{"read-only arena folder", func(h *Facts, _ *Fit) { h.Arena.Space.Writable = false }, Warn, "folder", []string{"not writable"}, "writable"},
		{"network disk", func(h *Facts, _ *Fit) { h.Arena.Space.FileSystem = "nfs" }, Warn, "disk", []string{"nfs"}, "--arena-dir"},
		{"slow disk", func(h *Facts, _ *Fit) { h.Arena.Speed = 90 }, Warn, "disk speed", []string{"90 MB/s"}, "--arena-dir"},
		{"disk speed not measured", func(h *Facts, _ *Fit) { h.Arena.Speed, h.Arena.SpeedError = 0, "too full" }, Warn, "disk speed", []string{"too full"}, ""},

		{"disk with too little room", func(h *Facts, _ *Fit) { h.Arena.Space.FreeBytes = 20 * gib }, Warn, "disk space",
			[]string{"28 GiB to pack", "20 GiB free", "8.0 GiB would lie in anonymous"}, "free 8.0 GiB"},
		{"dense weights don't fit", func(_ *Facts, m *Fit) { m.DenseBytes = 130 * gib }, Fail, "memory", []string{"131 GiB needed", "120 GiB"}, "--dense-format"},
		{"kv cache doesn't fit", func(_ *Facts, m *Fit) { m.KVBytes = 130 * gib }, Fail, "memory", []string{"kv 130 GiB"}, "--context"},
		{"cgroup too small", func(h *Facts, _ *Fit) {
			h.Cgroup = hostinfo.Cgroup{Version: 2, Limit: 2 * gib, Usage: gib, Available: gib}
		}, Fail, "memory",
			[]string{"2.0 GiB needed", "1.0 GiB left of the cgroup's limit of 2.0 GiB"}, "more memory"},
		{"cgroup with nothing left", func(h *Facts, _ *Fit) { h.Cgroup = hostinfo.Cgroup{Version: 2, Limit: 2 * gib, Usage: 2 * gib} }, Fail, "memory",
			[]string{"2.0 GiB needed"}, "more memory"},
		{"experts larger than memory", func(h *Facts, _ *Fit) { h.Memory.Available = 16 * gib }, Warn, "memory",
			// half of the token's 1.75 GiB at 2 GB/s
			[]string{"14 GiB of the 28 GiB of experts stay", "469.8ms a token"}, "--expert-budget"},
		{"anonymous experts larger than memory", func(h *Facts, _ *Fit) { h.Arena, h.Memory.Available = ArenaFacts{}, 16*gib }, Fail, "memory",
			[]string{"30 GiB needed", "experts 28 GiB", "16 GiB"}, "--arena-dir"},
		{"experts on tmpfs larger than memory", func(h *Facts, _ *Fit) { h.Arena.Space.FileSystem, h.Memory.Available = "tmpfs", 16*gib }, Fail, "memory",
			[]string{"30 GiB needed"}, "--arena-dir"},
		{"a node too small", func(h *Facts, m *Fit) {
			m.Workers[0].Bytes, m.Workers[1].Bytes = 0, 28*gib
			h.Topology.Nodes[1].AvailableBytes = 20 * gib
		}, Warn,
			"node 1", []string{"28 GiB of experts", "20 GiB of 64 GiB"}, "smaller --format"},
		{"more mappings than allowed", func(_ *Facts, m *Fit) { m.MoELayers, m.Parts = 100, 1000 }, Fail, "mappings", []string{"100500", "65530"}, "vm.max_map_count=201000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, m := goodHost(), goodFit()
			c.change(h, m)
			r := judge(h, m)
			var wrong []Finding
			for _, f := range r.Findings {
				if f.Level != OK {
					wrong = append(wrong, f)
				}
			}
			if len(wrong) != 1 {
				t.Fatalf("%d lines are not ok: %+v", len(wrong), wrong)
			}
			f := wrong[0]
			if f.Level != c.level || f.Subject != c.subject {
				t.Errorf("got %s %q, want %s %q", f.Level, f.Subject, c.level, c.subject)
			}
			for _, text := range c.text {
				if !strings.Contains(f.Text, text) {
					t.Errorf("%q does not contain %q", f.Text, text)
				}
			}
			if !strings.Contains(f.Fix, c.fix) || c.fix == "" && f.Fix != "" {
				t.Errorf("change %q, want %q", f.Fix, c.fix)
			}
			if r.Failed() != (c.level == Fail) {
				t.Errorf("Failed() is %v", r.Failed())
			}
		})
	}
}

// On one node nothing needs the calls.
func TestDeniedCallsOnOneNode(t *testing.T) {
	t.Parallel()
	h := goodHost()
	h.Topology.Nodes, h.Calls, h.Balances = h.Topology.Nodes[:1], numa.Permissions{}, true
	for _, f := range judgeHost(h) {
		if f.Level != OK {
			t.Errorf("%+v", f)
		}
	}
}

func TestPackedAlready(t *testing.T) {
	t.Parallel()
	h, m := goodHost(), goodFit()
	m.Workers[0].OnDisk, m.Workers[1].OnDisk = 100*gib, 13*gib // more than it needs, as after a change of owners
	h.Arena.Space.FreeBytes = 2 * gib
	text := ""
	for _, f := range judgeModel(h, m) {
		if f.Level != OK {
			t.Errorf("%+v", f)
		}
		if f.Subject == "disk space" {
			text = f.Text
		}
	}
	if !strings.Contains(text, "27 GiB packed already, 1.0 GiB to pack") {
		t.Errorf("got %q", text)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	bad := goodHost()
	bad.Topology.Nodes = append(bad.Topology.Nodes, numa.Node{ID: 3, MemoryBytes: 32 * gib, AvailableBytes: 32 * gib})
	bad.Calls = numa.Permissions{SetAffinity: true}
	bad.Cgroup = hostinfo.Cgroup{Version: 1, Path: "/sys/fs/cgroup/memory/job", Limit: 20 * gib, Usage: 5 * gib, Available: 16 * gib, CPUs: 3}
	bad.Arena.Space.FreeBytes, bad.Arena.Speed = 10*gib, 150
	bad.Arena.Mapped = &hostinfo.Mapped{Mappings: 4, Bytes: 8 * gib, Resident: 4 * gib, Huge: gib}
	for name, r := range map[string]*Report{
		"good": judge(goodHost(), goodFit()),
		"bad":  judge(bad, goodFit()),
		"host": judge(goodHost(), nil),
	} {
		var text bytes.Buffer
		if err := r.Text(&text); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".txt")
		if *rewrite {
			if err := os.WriteFile(golden, text.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), text.String()); diff != "" {
			t.Errorf("%s: %s", golden, diff)
		}
	}
}
