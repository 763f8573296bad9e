package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
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
	one, two := DefaultID(1, 0, 1), DefaultID(1, 2, 3)
	if !strings.HasSuffix(one, "-node1") || two != one+"-2" || !transport.ValidName(two) {
		t.Errorf("ids %q, %q", one, two)
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

func TestReadMemory(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	meminfo := "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
		why   string
	}{
		"nothing":   {nil, 0, ""},
		"no groups": {map[string]string{"proc/meminfo": meminfo}, 8192 * mib, "MemAvailable 8192 MiB"},
		"version 2": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "5\n",
			"sys/fs/cgroup/a/memory.max": fmt.Sprint(1000 * mib), "sys/fs/cgroup/a/memory.current": fmt.Sprint(700 * mib),
			"sys/fs/cgroup/a/memory.stat": fmt.Sprintf("anon 1\nfile %d\ninactive_file %d\nactive_file %d\n", 900*mib, 40*mib, 60*mib),
		}, 400 * mib, "cgroup limit 1000 MiB with 400 MiB left"},
		"version 2 in a container": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/not/here\n",
			"sys/fs/cgroup/memory.max": fmt.Sprint(2000 * mib), "sys/fs/cgroup/memory.current": fmt.Sprint(500 * mib),
		}, 1500 * mib, "cgroup limit 2000 MiB with 1500 MiB left"},
		"version 1": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu,cpuacct:/x\n3:memory:/job\n0::/other\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": fmt.Sprint(300 * mib), "sys/fs/cgroup/memory/job/memory.usage_in_bytes": fmt.Sprint(290 * mib),
			"sys/fs/cgroup/memory/job/memory.stat":       fmt.Sprintf("cache 1\ntotal_inactive_file %d\ntotal_active_file %d\n", 100*mib, 0),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712", "sys/fs/cgroup/memory/memory.usage_in_bytes": "7",
		}, 110 * mib, "cgroup limit 300 MiB with 110 MiB left"},
		"over the limit": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000", "sys/fs/cgroup/memory.current": "2000",
		}, 1, "cgroup limit 0 MiB with 0 MiB left"},
		"nonsense": {map[string]string{"proc/meminfo": "MemAvailable: many\nMemAvailable:\n", "proc/self/cgroup": "x\n\n1:2\n"}, 0, ""},
	} {
		root := fstest.MapFS{}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		got := readMemoryFrom(root)
		if got.Available != c.want || !strings.HasSuffix(got.Why, c.why) {
			t.Errorf("%s: %s", name, cmp.Diff(fmt.Sprint(c.want, c.why), fmt.Sprint(got.Available, got.Why)))
		}
	}
	if readRSSAnon() <= 0 || readMemory().Available <= 0 {
		t.Errorf("this host: %d bytes anonymous, %+v", readRSSAnon(), readMemory())
	}
}
