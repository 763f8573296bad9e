package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/numa/hostinfo"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
)

func TestDivide(t *testing.T) {
	t.Parallel()
	// Two threads a core: 0 and 4, 1 and 5, ...
	cores, cpus := []int{0, 1, 2, 3}, []int{0, 1, 2, 3, 4, 5, 6, 7}
	for _, c := range []struct {
		index, perNode, threads int
		wantThreads             int
		want                    []int
	}{
		{0, 1, 0, 4, []int{0, 1, 2, 3}},
		{0, 2, 0, 2, []int{0, 1}},
		{1, 2, 0, 2, []int{2, 3}},
		{0, 3, 0, 1, []int{0}},
		{1, 3, 0, 1, []int{1}},
		{2, 3, 0, 2, []int{2, 3}},
		{5, 6, 0, 1, []int{1}}, // more workers than cores
		{0, 1, 2, 2, []int{0, 1, 2, 3}},
		{0, 1, 6, 6, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{0, 1, 20, 20, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{1, 2, 3, 3, []int{2, 3, 4, 5, 6, 7}},
	} {
		threads, got := divide(cores, cpus, c.index, c.perNode, c.threads)
		if threads != c.wantThreads || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %d threads on %v", c, threads, got)
		}
	}
	if threads, got := divide(nil, nil, 0, 1, 0); threads != 1 || len(got) != 0 {
		t.Errorf("no CPUs: %d threads on %v", threads, got)
	}
}

// TestShares: together the workers of a node have each core once.
func TestShares(t *testing.T) {
	t.Parallel()
	list := []int{3, 5, 7, 11, 13, 17, 19}
	for n := 1; n <= len(list); n++ {
		var all []int
		for i := range n {
			all = append(all, share(list, i, n)...)
		}
		if !slices.Equal(all, list) {
			t.Errorf("%d shares: %v", n, all)
		}
	}
}

func TestDefaultID(t *testing.T) {
	t.Parallel()
	one, two := DefaultID("", 1, 0, 1), DefaultID("", 1, 2, 3)
	if !strings.HasSuffix(one, "-node1") || two != one+"-2" || !transport.ValidName(two) {
		t.Errorf("ids %q, %q", one, two)
	}
	if id := DefaultID("rack1.host7", 0, 0, 1); id != "rack1-host7-node0" {
		t.Errorf("a given host's id is %q", id)
	}
	for given, want := range map[string]string{
		"host7": "host7", "a.b.example": "a-b-example", "käse": "k-se", "": "host", strings.Repeat("x", 100): strings.Repeat("x", longestHost),
	} {
		if got := cleanHost(given); got != want || !transport.ValidName(got) {
			t.Errorf("host %q gives %q, want %q", given, got, want)
		}
	}
}

func TestArenaFolder(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0123456789abcdef", 4)
	for dir, want := range map[string]string{"": "", "none": "", "/x": "/x/0123456789abcdef-bf16-p3/w1"} {
		if got := ArenaFolder(dir, digest, kernels.BF16, 3, "w1"); got != want {
			t.Errorf("under %q: %q, want %q", dir, got, want)
		}
	}
}

func TestHostMemory(t *testing.T) {
	t.Parallel()
	const (
		mib     = 1 << 20
		meminfo = "MemTotal: 16777216 kB\nMemFree: 1000000 kB\nMemAvailable: 8388608 kB\n"
		mounts  = "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n"
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  shard.Memory
	}{
		"nothing":   {nil, shard.Memory{}},
		"no groups": {map[string]string{"proc/meminfo": meminfo}, shard.Memory{Available: 8192 * mib, Why: "MemAvailable 8.0 GiB"}},
		"a group": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": mounts,
			"sys/fs/cgroup/a/memory.max": fmt.Sprint(1000 * mib), "sys/fs/cgroup/a/memory.current": fmt.Sprint(700 * mib),
		}, shard.Memory{Available: 300 * mib, Why: "MemAvailable 8.0 GiB, cgroup limit 1000 MiB with 300 MiB left"}},
		"a wide group": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": mounts,
			"sys/fs/cgroup/a/memory.max": fmt.Sprint(10000 * mib), "sys/fs/cgroup/a/memory.current": fmt.Sprint(mib),
		}, shard.Memory{Available: 8192 * mib, Why: "MemAvailable 8.0 GiB, cgroup limit 9.8 GiB with 9.8 GiB left"}},
		"a full group": {map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": mounts,
			"sys/fs/cgroup/a/memory.max": "1000", "sys/fs/cgroup/a/memory.current": "2000",
		}, shard.Memory{Available: 1, Why: "cgroup limit 1000 B with 0 B left"}},
	} {
		root := fstest.MapFS{}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if diff := cmp.Diff(c.want, HostMemory(hostinfo.Host{Root: root})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
