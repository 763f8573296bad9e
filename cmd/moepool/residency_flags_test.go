package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/moepool/moepool/numa/hostinfo"
)

// TestResidentRoom: where a worker's limit comes from.
func TestResidentRoom(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	host := hostinfo.Host{Root: fstest.MapFS{
		"proc/meminfo":                     {Data: []byte("MemTotal: 16777216 kB\nMemAvailable: 16000000 kB\n")},
		"proc/self/cgroup":                 {Data: []byte("0::/job\n")},
		"proc/self/mountinfo":              {Data: []byte("30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")},
		"sys/fs/cgroup/job/memory.max":     {Data: []byte("8589934592\n")},
		"sys/fs/cgroup/job/memory.current": {Data: []byte("1073741824\n")},
	}}
	free := hostinfo.Host{Root: fstest.MapFS{}}
	for _, c := range []struct {
		name        string
		limit       string
		host        hostinfo.Host
		h           holding
		least, most int64 // of each
		text        string
	}{
		{"none", "none", host, holding{1, 0, 20 * gib, 1, true}, 0, 0, ""},
		{"given", "3GiB", host, holding{2, 0, 20 * gib, 1, true}, 3 * gib / 2, 3 * gib / 2, "3.0 GiB of experts for 2 workers, 1.5 GiB each"},
		{"the group's limit less what is used and needed", "auto", host, holding{1, gib, 20 * gib, 1, true}, 5 * gib, 6*gib - 1, "of 20 GiB of experts"},
		{"shared", "auto", host, holding{2, gib, 20 * gib, 1, true}, 5 * gib / 2, 3*gib - 1, "for 2 workers"},
		{"the experts' size is not known yet", "auto", host, holding{1, gib, 0, 1, true}, 5 * gib, 6*gib - 1, "resident limit"},
		{"all experts fit", "auto", host, holding{1, gib, 4 * gib, 1, true}, 0, 0, ""},
		{"anonymous memory can't be evicted", "auto", host, holding{1, gib, 20 * gib, 1, false}, 0, 0, ""},
		{"no group", "auto", free, holding{1, gib, 20 * gib, 1, true}, 0, 0, ""},
		{"no room at all", "auto", host, holding{1, 9 * gib, 20 * gib, 1, true}, 0, 0, "no resident limit is kept"},
		{"no room for an expert", "auto", host, holding{1, gib, 20 * gib, 7 * gib, true}, 0, 0, "less than one expert of each worker"},
	} {
		f := residencyFlags{limit: c.limit}
		r, err := f.room(c.host, c.h)
		if err != nil || r.each < c.least || r.each > c.most || !strings.Contains(r.text, c.text) || (r.text == "") != (c.text == "") {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
}

func TestResidencyFlags(t *testing.T) {
	t.Parallel()
	good := residencyFlags{limit: "auto", eviction: "lru", warm: "none", prefetch: "auto", hugePages: "auto"}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(f *residencyFlags){
		"--resident-limit": func(f *residencyFlags) { f.limit = "much" },
		"--eviction":       func(f *residencyFlags) { f.eviction = "random" },
		"--warm":           func(f *residencyFlags) { f.warm = "some" },
		"--prefetch":       func(f *residencyFlags) { f.prefetch = "maybe" },
		"--huge-pages":     func(f *residencyFlags) { f.hugePages = "always" },
		"--residency-trace": func(f *residencyFlags) {
			f.limit, f.trace = "none", "file"
		},
	} {
		f := good
		change(&f)
		if err := f.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	f := residencyFlags{trace: "t"}
	if f.traceOf("w0", 1) != "t" || f.traceOf("w0", 2) != "t.w0" || (&residencyFlags{}).traceOf("w0", 2) != "" {
		t.Error("names of trace files")
	}
}
