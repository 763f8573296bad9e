// Package hostinfo reads facts about this host and its processes from /proc and /sys: memory and its limits, kernel settings, what a
// process holds. It owns the formats of those files. It decides nothing, and changes nothing.
package hostinfo

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Host reads the files below Root ("proc/meminfo", "sys/fs/cgroup/...").
type Host struct{ Root fs.FS }

// This is the host that the program runs on. On other systems than Linux its files don't exist, and each reader says so.
func This() Host { return Host{Root: os.DirFS("/")} }

// Unlimited is a limit that there is not.
const Unlimited int64 = -1

// Memory is the memory of the host in bytes.
type Memory struct {
	Total     int64 `json:"total"`
	Free      int64 `json:"free"`
	Available int64 `json:"available"` // the kernel's estimate of what can be taken without swapping
	Cached    int64 `json:"cached"`
	HugeFiles int64 `json:"huge_files"` // page cache in huge pages
	SwapTotal int64 `json:"swap_total"`
}

// Memory reads /proc/meminfo.
func (h Host) Memory() (Memory, error) {
	const name = "proc/meminfo"
	fields, err := h.sizes(name)
	if err != nil {
		return Memory{}, err
	}
	if fields["MemTotal"] == 0 {
		return Memory{}, fmt.Errorf("/%s: no MemTotal", name)
	}
	available, found := fields["MemAvailable"]
	if !found { // before Linux 3.14
		available = fields["MemFree"] + fields["Cached"]
	}
	return Memory{
		Total: fields["MemTotal"], Free: fields["MemFree"], Available: available,
		Cached: fields["Cached"], HugeFiles: fields["FileHugePages"], SwapTotal: fields["SwapTotal"],
	}, nil
}

// CPUModel is the processor's name, "" if unknown.
func (h Host) CPUModel() string {
	text, err := fs.ReadFile(h.Root, "proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		name, value, found := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "model name", "Model", "cpu model": // x86, ARM boards, MIPS
			if found {
				return strings.TrimSpace(value)
			}
		}
	}
	return ""
}

// Kernel is the kernel's release, such as "6.1.0-18-amd64"; "" if unknown.
func (h Host) Kernel() string { return h.line("proc/sys/kernel/osrelease") }

// HugePages are the modes of transparent huge pages: anonymous memory ("always", "madvise" or "never") and tmpfs ("always",
// "within_size", "advise", "never", ...); "" where the kernel has none.
func (h Host) HugePages() (anonymous, shared string) {
	const dir = "sys/kernel/mm/transparent_hugepage/"
	return chosen(h.line(dir + "enabled")), chosen(h.line(dir + "shmem_enabled"))
}

// chosen gives the word in brackets.
func chosen(line string) string {
	_, rest, found := strings.Cut(line, "[")
	word, _, closed := strings.Cut(rest, "]")
	if !found || !closed {
		return ""
	}
	return word
}

// MaxMaps is vm.max_map_count: how many mappings a process may have.
func (h Host) MaxMaps() (int, error) {
	const name = "proc/sys/vm/max_map_count"
	n, err := strconv.Atoi(h.line(name))
	if err != nil {
		return 0, fmt.Errorf("/%s: %w", name, err)
	}
	return n, nil
}

// NUMABalancing says whether the kernel moves pages between nodes by itself.
func (h Host) NUMABalancing() bool {
	line := h.line("proc/sys/kernel/numa_balancing")
	return line != "" && line != "0"
}

// line is the first line of a file, "" if it can't be read.
func (h Host) line(name string) string {
	text, err := fs.ReadFile(h.Root, name)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// sizes reads lines such as "MemTotal:  1024 kB" as bytes by name; other lines are left out.
func (h Host) sizes(name string) (map[string]int64, error) {
	text, err := fs.ReadFile(h.Root, name)
	if err != nil {
		return nil, err
	}
	fields := map[string]int64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if field, size, ok := sizeLine(lines.Text()); ok {
			fields[field] = size
		}
	}
	return fields, lines.Err()
}

func sizeLine(line string) (field string, size int64, ok bool) {
	field, value, found := strings.Cut(line, ":")
	words := strings.Fields(value)
	if !found || len(words) != 2 || words[1] != "kB" {
		return "", 0, false
	}
	kilobytes, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || kilobytes < 0 || kilobytes > 1<<52 {
		return "", 0, false
	}
	return field, kilobytes << 10, true
}
