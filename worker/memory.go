package worker

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/moepool/moepool/worker/shard"
)

// root is where /proc and /sys/fs/cgroup are read.
func root() fs.FS { return os.DirFS("/") }

// readMemory gives what this process may still take: the kernel's MemAvailable, or less where a cgroup says so.
func readMemory() shard.Memory { return readMemoryFrom(root()) }

func readMemoryFrom(root fs.FS) shard.Memory {
	var m shard.Memory
	if available, ok := field(root, "proc/meminfo", "MemAvailable:"); ok {
		m.Available = available << 10
		m.Why = fmt.Sprintf("MemAvailable %d MiB", m.Available>>20)
	}
	for _, g := range cgroups(root) {
		free, limit, ok := g.free(root)
		if !ok {
			continue
		}
		if m.Available == 0 || free < m.Available {
			m.Available = max(free, 1) // 0 would mean unknown
		}
		m.Why = strings.TrimPrefix(fmt.Sprintf("%s, cgroup limit %d MiB with %d MiB left", m.Why, limit>>20, free>>20), ", ")
	}
	return m
}

// readRSSAnon is this process's anonymous resident memory in bytes; 0 where it can't be read.
func readRSSAnon() int64 {
	kib, _ := field(root(), "proc/self/status", "RssAnon:")
	return kib << 10
}

// field finds the number behind a key in a file of "key number" lines.
func field(root fs.FS, name, key string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) >= 2 && f[0] == key {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// cgroup is a folder of the memory controller, of version 1 or 2.
type cgroup struct {
	dir     string
	version int
}

// cgroups gives this process's groups, the innermost first: each of them may set a limit.
func cgroups(root fs.FS) []cgroup {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var all []cgroup
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		f := strings.SplitN(lines.Text(), ":", 3)
		if len(f) != 3 {
			continue
		}
		base, version := "", 0
		switch {
		case f[0] == "0" && f[1] == "":
			base, version = "sys/fs/cgroup", 2
		case strings.Contains(","+f[1]+",", ",memory,"):
			base, version = "sys/fs/cgroup/memory", 1
		default:
			continue
		}
		// In a container the path may be the host's; the container's own group is then mounted at the base.
		for dir := path.Join(base, f[2]); ; dir = path.Dir(dir) {
			if len(dir) < len(base) {
				break
			}
			all = append(all, cgroup{dir, version})
			if dir == base {
				break
			}
		}
	}
	return all
}

// noLimit is far above any memory: version 1 writes a huge number where there is no limit.
const noLimit = 1 << 60

// free gives the limit and what is left of it, page cache that can be dropped included; false if there is no limit.
func (g cgroup) free(root fs.FS) (free, limit int64, ok bool) {
	limitName, usedName, stats := "memory.max", "memory.current", []string{"active_file", "inactive_file"}
	if g.version == 1 {
		limitName, usedName, stats = "memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_active_file", "total_inactive_file"}
	}
	limit, ok = number(root, path.Join(g.dir, limitName))
	if !ok || limit >= noLimit {
		return 0, 0, false
	}
	used, ok := number(root, path.Join(g.dir, usedName))
	if !ok {
		return 0, 0, false
	}
	free = limit - used
	for _, s := range stats {
		cached, _ := field(root, path.Join(g.dir, "memory.stat"), s)
		free += cached
	}
	return min(max(free, 0), limit), limit, true
}

// number reads a file that holds one number; "max" is none.
func number(root fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
