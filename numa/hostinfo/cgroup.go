package hostinfo

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Cgroup is what the control groups of this process allow it, the groups around its own included.
type Cgroup struct {
	Version   int     `json:"version"`   // 1 or 2 where memory is controlled, 0 where it is not
	Path      string  `json:"path"`      // the folder whose memory limit is the lowest
	Limit     int64   `json:"limit"`     // bytes of memory, page cache included; Unlimited if there is none
	Usage     int64   `json:"usage"`     // of the same group
	Available int64   `json:"available"` // what can still be taken: page cache counts as available; Unlimited if there is no limit
	CPUs      float64 `json:"cpus"`      // the quota of processor time, in CPUs; 0 if there is none

	// Tightest is the group that leaves least: the one that Available is of. Its Path is "" if there is no limit. A group around this
	// process's own may have a higher limit and less room, because of what others of it hold.
	Tightest CgroupUse `json:"tightest"`
}

// CgroupUse is what a group with a memory limit holds, in bytes.
type CgroupUse struct {
	Path          string `json:"path"`
	Limit         int64  `json:"limit"`
	Usage         int64  `json:"usage"`
	Unreclaimable int64  `json:"unreclaimable"` // of the usage: all but page cache (what is locked in memory counts here) and slabs that can be given up
}

// Cgroup reads the limits, of version 1 and 2. Files that are missing mean no limit.
func (h Host) Cgroup() Cgroup {
	c := Cgroup{Limit: Unlimited, Available: Unlimited}
	text, err := fs.ReadFile(h.Root, file(Self, "cgroup"))
	if err != nil {
		return c
	}
	mounts := h.cgroupMounts()
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path, with no controllers for version 2
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for _, m := range mounts {
			if fields[0] == "0" && fields[1] == "" && m.version == 2 {
				h.memory(&c, m, fields[2], memoryV2)
				h.quota(&c, m, fields[2])
			}
			for controller := range strings.SplitSeq(fields[1], ",") {
				switch {
				case m.version != 1 || !m.controls(controller):
				case controller == "memory":
					h.memory(&c, m, fields[2], memoryV1)
				case controller == "cpu":
					h.quota(&c, m, fields[2])
				}
			}
		}
	}
	return c
}

// cgroupMount is where a hierarchy can be seen.
type cgroupMount struct {
	version int
	root    string // the group that is mounted
	dir     string // where
	options string // the controllers, of version 1
}

func (m cgroupMount) controls(controller string) bool {
	for option := range strings.SplitSeq(m.options, ",") {
		if option == controller {
			return true
		}
	}
	return false
}

func (h Host) cgroupMounts() (mounts []cgroupMount) {
	text, err := fs.ReadFile(h.Root, file(Self, "mountinfo"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		// id parent device root dir options [optional...] - type source superoptions
		before, after, found := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !found || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		version := map[string]int{"cgroup": 1, "cgroup2": 2}[kind[0]]
		if version == 0 {
			continue
		}
		unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace
		mounts = append(mounts, cgroupMount{version: version, root: unescape(fields[3]), dir: unescape(fields[4]), options: kind[2]})
	}
	return mounts
}

// folders gives the folders of a group and of those around it, innermost first, as far as they can be seen. In a container the
// group may lie outside of what is mounted: then the mount itself is the best that is known.
func (m cgroupMount) folders(group string) []string {
	inside, found := strings.CutPrefix(path.Clean(group), path.Clean(m.root))
	if path.Clean(m.root) == "/" {
		inside, found = path.Clean(group), true
	}
	if !found || (inside != "" && inside[0] != '/') || strings.HasPrefix(inside, "/..") {
		inside = ""
	}
	dir := strings.TrimPrefix(path.Clean(m.dir), "/")
	folders := []string{}
	for inside = path.Join("/", inside); inside != "/"; inside = path.Dir(inside) {
		folders = append(folders, dir+inside)
	}
	return append(folders, dir)
}

// memoryFiles are the names of the files of a version.
type memoryFiles struct {
	version    int
	limits     []string // the lowest counts
	usage      string
	reclaimed  []string // fields of memory.stat: page cache and slabs that can be given up
	noLimitMin int64    // values from here on mean no limit
}

var (
	memoryV1 = memoryFiles{1, []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", []string{"total_active_file", "total_inactive_file"}, 1 << 62}
	// Above memory.high a process isn't killed but slowed down until nothing goes on: a limit as well.
	memoryV2 = memoryFiles{2, []string{"memory.max", "memory.high"}, "memory.current", []string{"active_file", "inactive_file", "slab_reclaimable"}, 1 << 62}
)

func (h Host) memory(c *Cgroup, m cgroupMount, group string, files memoryFiles) {
	for _, dir := range m.folders(group) {
		limit := Unlimited
		for _, name := range files.limits {
			n, err := strconv.ParseInt(h.line(path.Join(dir, name)), 10, 64)
			if err != nil || n < 0 || n >= files.noLimitMin { // "max", or no such file
				continue
			}
			if limit == Unlimited || n < limit {
				limit = n
			}
		}
		usage, err := strconv.ParseInt(h.line(path.Join(dir, files.usage)), 10, 64)
		if err != nil {
			continue // the root of version 2 has no such file, nor has a hierarchy without this controller
		}
		if c.Version == 0 {
			c.Version, c.Path, c.Usage = files.version, "/"+dir, usage
		}
		if limit == Unlimited {
			continue
		}
		if c.Limit == Unlimited || limit < c.Limit {
			c.Version, c.Path, c.Limit, c.Usage = files.version, "/"+dir, limit, usage
		}
		unreclaimable := max(0, usage-h.reclaimable(path.Join(dir, "memory.stat"), files.reclaimed))
		available := max(0, limit-unreclaimable)
		if c.Available == Unlimited || available < c.Available {
			c.Available = available
			c.Tightest = CgroupUse{Path: "/" + dir, Limit: limit, Usage: usage, Unreclaimable: unreclaimable}
		}
	}
}

// reclaimable sums up fields of memory.stat.
func (h Host) reclaimable(name string, fields []string) (sum int64) {
	text, err := fs.ReadFile(h.Root, name)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		for _, field := range fields {
			if value, found := strings.CutPrefix(line, field+" "); found {
				n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				sum += n
			}
		}
	}
	return sum
}

// quota reads the limit of processor time: cpu.max holds "quota period" or "max period", version 1 has a file for each.
func (h Host) quota(c *Cgroup, m cgroupMount, group string) {
	for _, dir := range m.folders(group) {
		words := strings.Fields(h.line(path.Join(dir, "cpu.max")))
		if m.version == 1 {
			words = []string{h.line(path.Join(dir, "cpu.cfs_quota_us")), h.line(path.Join(dir, "cpu.cfs_period_us"))}
		}
		if len(words) != 2 {
			continue
		}
		quota, err := strconv.ParseFloat(words[0], 64)
		period, err2 := strconv.ParseFloat(words[1], 64)
		if err != nil || err2 != nil || quota <= 0 || period <= 0 {
			continue
		}
		if cpus := quota / period; c.CPUs == 0 || cpus < c.CPUs {
			c.CPUs = cpus
		}
	}
}
