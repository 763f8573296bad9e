package hostinfo_test

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/numa/hostinfo"
)

// host is a host from a map of paths.
func host(files map[string]string) hostinfo.Host {
	root := fstest.MapFS{}
	for path, text := range files {
		root[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return hostinfo.Host{Root: root}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	got, err := host(map[string]string{"proc/meminfo": `MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    700 kB
Cached:          600 kB
HugePages_Total:       0
FileHugePages:   512 kB
SwapTotal:         1 kB
`}).Memory()
	if err != nil {
		t.Fatal(err)
	}
	want := hostinfo.Memory{Total: 1000 << 10, Free: 100 << 10, Available: 700 << 10, Cached: 600 << 10, HugeFiles: 512 << 10, SwapTotal: 1 << 10}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	old, err := host(map[string]string{"proc/meminfo": "MemTotal: 1000 kB\nMemFree: 100 kB\nCached: 600 kB\n"}).Memory()
	if err != nil || old.Available != 700<<10 {
		t.Errorf("without MemAvailable: %+v, %v", old, err)
	}
	for _, text := range []string{"", "MemTotal: x kB\n", "MemTotal: -5 kB\n", "MemTotal: 99999999999999999999 kB\n"} {
		if got, err := host(map[string]string{"proc/meminfo": text}).Memory(); err == nil {
			t.Errorf("%q gave %+v", text, got)
		}
	}
	if _, err := host(nil).Memory(); err == nil {
		t.Error("no file: no error")
	}
}

func TestKernelSettings(t *testing.T) {
	t.Parallel()
	h := host(map[string]string{
		"proc/cpuinfo":                                     "processor\t: 0\nmodel\t\t: 207\nmodel name\t: Some CPU @ 2 GHz\n\nprocessor : 1\nmodel name : Other\n",
		"proc/sys/kernel/osrelease":                        "6.1.0-18-amd64\n",
		"proc/sys/vm/max_map_count":                        "65530\n",
		"proc/sys/kernel/numa_balancing":                   "1\n",
		"sys/kernel/mm/transparent_hugepage/enabled":       "always [madvise] never\n",
		"sys/kernel/mm/transparent_hugepage/shmem_enabled": "always within_size advise [never] deny force\n",
	})
	if got := h.CPUModel(); got != "Some CPU @ 2 GHz" {
		t.Errorf("model %q", got)
	}
	if got := h.Kernel(); got != "6.1.0-18-amd64" {
		t.Errorf("kernel %q", got)
	}
	if n, err := h.MaxMaps(); n != 65530 || err != nil {
		t.Errorf("max_map_count %d, %v", n, err)
	}
	if !h.NUMABalancing() {
		t.Error("balancing is on")
	}
	if a, s := h.HugePages(); a != "madvise" || s != "never" {
		t.Errorf("huge pages %q, %q", a, s)
	}
	none := host(nil)
	if _, err := none.MaxMaps(); err == nil {
		t.Error("max_map_count without a file: no error")
	}
	if a, s := none.HugePages(); none.CPUModel() != "" || none.Kernel() != "" || none.NUMABalancing() || a != "" || s != "" {
		t.Error("facts without files")
	}
}

func TestProcess(t *testing.T) {
	t.Parallel()
	h := host(map[string]string{
		"proc/77/status":   "Name:\tx: y\nVmHWM:\t  900 kB\nRssAnon:\t 100 kB\nRssFile:\t 200 kB\nRssShmem:\t 4 kB\n",
		"proc/78/status":   "Name:\tkthreadd\n",
		"proc/77/io":       "rchar: 5\nread_bytes: 4096\nwrite_bytes: 1\n",
		"proc/77/maps":     "a\nb\nc\n",
		"proc/self/status": "Cpus_allowed_list:\t0-3\nMems_allowed_list:\t0,2-3\n",
		"proc/self/limits": "Limit  Soft  Hard  Units\nMax locked memory         8388608              unlimited            bytes     \n",
	})
	got, err := h.Process(77)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hostinfo.Process{RssAnon: 100 << 10, RssFile: 200 << 10, RssShmem: 4 << 10, PeakRss: 900 << 10}, got); diff != "" {
		t.Error(diff)
	}
	for _, pid := range []int{78, 79} {
		if _, err := h.Process(pid); err == nil {
			t.Errorf("process %d: no error", pid)
		}
	}
	if n, err := h.ReadBytes(77); n != 4096 || err != nil {
		t.Errorf("read_bytes %d, %v", n, err)
	}
	if n, err := h.Maps(77); n != 3 || err != nil {
		t.Errorf("maps %d, %v", n, err)
	}
	nodes, err := h.AllowedNodes()
	if diff := cmp.Diff([]int{0, 2, 3}, nodes); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if n, err := h.LockLimit(); n != 8388608 || err != nil {
		t.Errorf("lock limit %d, %v", n, err)
	}
	unlimited := host(map[string]string{"proc/self/limits": "Max locked memory         unlimited            unlimited            bytes\n"})
	if n, err := unlimited.LockLimit(); n != hostinfo.Unlimited || err != nil {
		t.Errorf("lock limit %d, %v", n, err)
	}
	ids, err := h.Processes()
	if diff := cmp.Diff([]int{77, 78}, ids); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestMapped(t *testing.T) {
	t.Parallel()
	h := host(map[string]string{"proc/5/smaps": `7f0000000000-7f0000400000 rw-s 00000000 fe:00 12   /arena dir/layer-0
Size:               4096 kB
Rss:                3072 kB
AnonHugePages:         0 kB
FilePmdMapped:      2048 kB
VmFlags: rd wr sh
7f0000400000-7f0000401000 rw-p 00000000 00:00 0
Size:                  4 kB
Rss:                   4 kB
AnonHugePages:         0 kB
7f0000500000-7f0000600000 rw-s 00000000 fe:00 13   /arena dir/layer-1
Size:               1024 kB
Rss:                   0 kB
7f0000700000-7f0000800000 r--p 00000000 fe:00 14   /other/file
Size:               1024 kB
Rss:                1024 kB
`})
	got, err := h.Mapped(5, "/arena dir/")
	if err != nil {
		t.Fatal(err)
	}
	want := hostinfo.Mapped{Mappings: 2, Bytes: 5 << 20, Resident: 3 << 20, Huge: 2 << 20}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := h.Mapped(6, "/"); err == nil {
		t.Error("no process: no error")
	}
}

// The kernel's own files hold what the readers expect.
func TestThisHost(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	h := hostinfo.This()
	if m, err := h.Memory(); err != nil || m.Available <= 0 || m.Available > m.Total {
		t.Errorf("memory %+v, %v", m, err)
	}
	if n, err := h.MaxMaps(); err != nil || n < 1000 {
		t.Errorf("max_map_count %d, %v", n, err)
	}
	if _, err := h.LockLimit(); err != nil {
		t.Error(err)
	}
	if nodes, err := h.AllowedNodes(); err != nil || len(nodes) == 0 {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	self, err := h.Process(hostinfo.Self)
	if err != nil || self.RssAnon <= 0 {
		t.Errorf("this process: %+v, %v", self, err)
	}
	if same, err := h.Process(os.Getpid()); err != nil || same.RssAnon <= 0 {
		t.Errorf("by its id: %+v, %v", same, err)
	}
	if n, err := h.Maps(hostinfo.Self); err != nil || n < 5 {
		t.Errorf("maps %d, %v", n, err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if m, err := h.Mapped(hostinfo.Self, program); err != nil || m.Mappings == 0 || m.Resident == 0 {
		t.Errorf("the program's own file: %+v, %v", m, err)
	}
	if !strings.Contains(h.Kernel(), ".") {
		t.Errorf("kernel %q", h.Kernel())
	}
}
