package hostinfo

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/moepool/moepool/numa"
)

// Process is the memory of a process in bytes.
type Process struct {
	RssAnon  int64 `json:"rss_anon"`  // owned memory: heap, anonymous mappings
	RssFile  int64 `json:"rss_file"`  // mapped files: page cache, which the kernel can take back
	RssShmem int64 `json:"rss_shmem"` // tmpfs and shared anonymous memory
	PeakRss  int64 `json:"peak_rss"`  // the largest sum of the three so far
}

// Self stands for the process that asks.
const Self = 0

// file gives the path of a file of a process.
func file(pid int, name string) string {
	if pid == Self {
		return "proc/self/" + name
	}
	return fmt.Sprintf("proc/%d/%s", pid, name)
}

// Process reads /proc/PID/status.
func (h Host) Process(pid int) (Process, error) {
	name := file(pid, "status")
	fields, err := h.sizes(name)
	if err != nil {
		return Process{}, err
	}
	if _, found := fields["RssAnon"]; !found {
		return Process{}, fmt.Errorf("/%s: no RssAnon (a process that has ended, or Linux before 4.5)", name)
	}
	return Process{
		RssAnon: fields["RssAnon"], RssFile: fields["RssFile"], RssShmem: fields["RssShmem"], PeakRss: fields["VmHWM"],
	}, nil
}

// AllowedNodes are the memory nodes of this process's cpuset.
func (h Host) AllowedNodes() ([]int, error) {
	name := file(Self, "status")
	text, err := fs.ReadFile(h.Root, name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "Mems_allowed_list:"); found {
			return numa.ParseList(value)
		}
	}
	return nil, fmt.Errorf("/%s: no Mems_allowed_list", name)
}

// ReadBytes is what a process has caused to be read from disks (page cache hits are not in it).
func (h Host) ReadBytes(pid int) (int64, error) {
	name := file(pid, "io")
	text, err := fs.ReadFile(h.Root, name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "read_bytes:"); found {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/%s: read_bytes: %w", name, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("/%s: no read_bytes", name)
}

// LockLimit is how many bytes this process may lock in memory (RLIMIT_MEMLOCK, soft), or Unlimited.
func (h Host) LockLimit() (int64, error) {
	name := file(Self, "limits")
	text, err := fs.ReadFile(h.Root, name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		value, found := strings.CutPrefix(line, "Max locked memory")
		if !found {
			continue
		}
		words := strings.Fields(value)
		if len(words) == 0 {
			break
		}
		if words[0] == "unlimited" {
			return Unlimited, nil
		}
		n, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/%s: locked memory: %w", name, err)
		}
		return n, nil
	}
	return 0, fmt.Errorf("/%s: no limit of locked memory", name)
}

// Mapped sums up mappings of files.
type Mapped struct {
	Mappings int   `json:"mappings"`
	Bytes    int64 `json:"bytes"`
	Resident int64 `json:"resident"` // bytes in this process's page table
	Huge     int64 `json:"huge"`     // of these, mapped by huge pages
}

// Mapped reads /proc/PID/smaps for the files whose paths begin with prefix. The kernel walks the page tables for it: some ms per
// mapped GB; a process that maps none of them costs little.
func (h Host) Mapped(pid int, prefix string) (Mapped, error) {
	maps, err := fs.ReadFile(h.Root, file(pid, "maps"))
	if err == nil && !bytes.Contains(maps, []byte(prefix)) {
		return Mapped{}, nil
	}
	smaps, err := h.Root.Open(file(pid, "smaps"))
	if err != nil {
		return Mapped{}, err
	}
	defer smaps.Close()
	var sum Mapped
	inside := false
	lines := bufio.NewReader(smaps)
	for {
		line, err := lines.ReadString('\n')
		if path, isHead := mappingPath(line); isHead {
			if inside = path != "" && strings.HasPrefix(path, prefix); inside {
				sum.Mappings++
			}
		} else if field, size, ok := sizeLine(line); ok && inside {
			switch field {
			case "Size":
				sum.Bytes += size
			case "Rss":
				sum.Resident += size
			case "AnonHugePages", "ShmemPmdMapped", "FilePmdMapped":
				sum.Huge += size
			}
		}
		if err == io.EOF {
			return sum, nil
		}
		if err != nil {
			return Mapped{}, err
		}
	}
}

// mappingPath reads the head of a mapping, "from-to rights offset device inode path"; the path may have spaces, or be missing.
func mappingPath(line string) (path string, isHead bool) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 5 || strings.HasSuffix(fields[0], ":") || !strings.Contains(fields[0], "-") {
		return "", false
	}
	if len(fields) < 6 {
		return "", true
	}
	return strings.TrimSpace(fields[5]), true
}

// Maps counts the mappings of a process.
func (h Host) Maps(pid int) (int, error) {
	text, err := fs.ReadFile(h.Root, file(pid, "maps"))
	if err != nil {
		return 0, err
	}
	return bytes.Count(text, []byte{'\n'}), nil
}

// Processes lists the ids of all processes.
func (h Host) Processes() ([]int, error) {
	entries, err := fs.ReadDir(h.Root, "proc")
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, entry := range entries {
		if id, err := strconv.Atoi(entry.Name()); err == nil && id > 0 {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
