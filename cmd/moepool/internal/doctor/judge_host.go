package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/numa/hostinfo"
)

// The sections of a report.
const (
	sectionHost  = "host"
	sectionArena = "arena"
	sectionModel = "model"
)

// findings collects lines of one section.
type findings struct {
	section string
	list    []Finding
}

func (f *findings) add(l Level, subject, fix, format string, args ...any) {
	f.list = append(f.list, Finding{Section: f.section, Level: l, Subject: subject, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// judgeHost looks at the host alone.
func judgeHost(h *Facts) []Finding {
	f := &findings{section: sectionHost}
	system := h.System
	if h.Kernel != "" {
		system += ", kernel " + h.Kernel
	}
	if strings.HasPrefix(h.System, "linux/") {
		f.add(OK, "system", "", "%s", system)
	} else {
		f.add(Warn, "system", "run it on Linux", "%s: no NUMA, no thread pinning, no residency here", system)
	}
	f.processor(h)
	f.kernels(h)
	f.memory(h)
	f.nodes(h)
	f.calls(h)
	f.settings(h)
	return f.list
}

func (f *findings) processor(h *Facts) {
	model := h.CPU
	if model == "" {
		model = "unknown model"
	}
	f.add(OK, "cpu", "", "%s: %s, CPUs %s", model, count(h.Topology.Cores(), "core"), numa.FormatList(h.Topology.Allowed))
	// Threads in excess of the quota don't run slower but stop altogether for the rest of each period.
	if cores := h.Topology.Cores(); h.Cgroup.CPUs > 0 && h.Cgroup.CPUs < float64(cores) {
		threads := max(1, int(h.Cgroup.CPUs))
		f.add(Warn, "cpu quota", fmt.Sprintf("--threads and --coordinator-threads so that all are at most %d, or give the container more CPUs", threads),
			"the cgroup allows %.1f CPUs, fewer than the %d cores that would be used", h.Cgroup.CPUs, cores)
	}
}

func (f *findings) kernels(h *Facts) {
	var present, missing []string
	for _, feature := range h.Features {
		if feature.Present {
			present = append(present, feature.Name)
		} else {
			missing = append(missing, feature.Name)
		}
	}
	text := fmt.Sprintf("%s (this CPU runs %s)", h.Chosen, strings.Join(h.Runs, ", "))
	switch {
	case len(h.Runs) > 0 && h.Chosen != h.Runs[0]:
		f.add(Warn, "kernels", "--kernels auto", "%s: %s is quicker", text, h.Runs[0])
	case h.Chosen == "generic":
		f.add(Warn, "kernels", "a CPU with AVX2 and FMA; in a virtual machine: let the guest see the host's CPU", "%s: some ten times slower than with AVX2", text)
	default:
		f.add(OK, "kernels", "", "%s", text)
	}
	f.add(OK, "cpu features", "", "%s; not %s", list(present), list(missing))
	switch {
	case h.Refused != "":
		f.add(Warn, "amx", "Linux 5.16 or later, and a sandbox that lets arch_prctl through", "not used, though it counts as present: %s", h.Refused)
	case h.Emulated:
		f.add(Warn, "amx", "unset AMXTRAP", "AMXTRAP=1: AMX counts as present though this CPU lacks it; it is emulated, slowly")
	}
}

func (f *findings) memory(h *Facts) {
	if h.Memory.Total == 0 {
		f.add(Warn, "memory", "", "unknown on this system")
	} else {
		f.add(OK, "memory", "", "%s, %s available", bytesize.Text(h.Memory.Total), bytesize.Text(h.Memory.Available))
	}
	switch {
	case h.Cgroup.Limit != hostinfo.Unlimited:
		f.add(OK, "cgroup", "", "v%d, limit %s, %s used, %s left (%s)", h.Cgroup.Version, bytesize.Text(h.Cgroup.Limit), bytesize.Text(h.Cgroup.Usage),
			bytesize.Text(h.Cgroup.Available), h.Cgroup.Path)
	case h.Cgroup.Version != 0:
		f.add(OK, "cgroup", "", "v%d, no memory limit", h.Cgroup.Version)
	default:
		f.add(OK, "cgroup", "", "no memory limit")
	}
}

func (f *findings) nodes(h *Facts) {
	t := h.Topology
	if !t.Known {
		f.add(OK, "numa", "", "this system says nothing of NUMA nodes: one is assumed")
		return
	}
	text := count(len(t.Nodes), "node")
	if len(t.Nodes) > 1 {
		text += fmt.Sprintf(", %d with CPUs of this process", len(t.ComputeNodes()))
	}
	f.add(OK, "numa", "", "%s", text)
	for _, n := range t.Nodes {
		subject := fmt.Sprintf("node %d", n.ID)
		memory := fmt.Sprintf("%s, %s available", bytesize.Text(n.MemoryBytes), bytesize.Text(n.AvailableBytes))
		allowed := len(h.MemNodes) == 0 || slices.Contains(h.MemNodes, n.ID)
		switch {
		case !allowed && len(n.CPUs) > 0:
			f.add(Warn, subject, fmt.Sprintf("add node %d to the cpuset's memory nodes (docker: --cpuset-mems)", n.ID),
				"CPUs %s, but the cpuset forbids its memory: all of it is remote", numa.FormatList(n.CPUs))
		case len(n.CPUs) > 0:
			f.add(OK, subject, "", "CPUs %s (%s), %s", numa.FormatList(n.CPUs), count(len(n.Cores), "core"), memory)
		default:
			f.add(OK, subject, "", "no CPUs for this process: gets no worker; %s", memory)
		}
	}
}

// calls judges what may be called: with one node there is nothing to place.
func (f *findings) calls(h *Facts) {
	type call struct {
		name    string
		allowed bool
		effect  string
	}
	calls := []call{
		{"sched_setaffinity", h.Calls.SetAffinity, "threads wander between cores and nodes"},
		{"set_mempolicy", h.Calls.SetMempolicy, "memory goes to the node that touches it first"},
		{"mbind", h.Calls.Mbind, "anonymous memory and tmpfs can't be bound"},
		{"move_pages", h.Calls.MovePages, "placement can't be checked nor mended"},
	}
	const fix = "in a container: docker --cap-add SYS_NICE, Kubernetes: capabilities add SYS_NICE"
	var permitted, denied []string
	many := len(h.Topology.Nodes) > 1
	for _, c := range calls {
		if c.allowed {
			permitted = append(permitted, c.name)
			continue
		}
		denied = append(denied, c.name)
		if many {
			f.add(Warn, c.name, fix, "not permitted: %s", c.effect)
		}
	}
	if len(permitted) > 0 {
		f.add(OK, "numa calls", "", "%s permitted", list(permitted))
	}
	if !many && len(denied) > 0 {
		f.add(OK, "numa calls", "", "%s not permitted (not needed with one node)", list(denied))
	}
	if h.Balances && many {
		f.add(Warn, "numa balancing", "sysctl -w kernel.numa_balancing=0", "on: the kernel unmaps pages to watch their use, and moves them by itself")
	}
}

// enoughMaps is what a process needs besides its arenas, with room to spare.
const enoughMaps = 4096

func (f *findings) settings(h *Facts) {
	if l := h.Lanes; l.NATS > 0 && l.Local > 0 {
		f.add(OK, "lane", "", "a layer's round trip to a worker on this host takes %d µs over NATS, %d µs with --lane local",
			l.NATS.Microseconds(), l.Local.Microseconds())
	}
	if h.HugeAnon != "" || h.HugeTmp != "" {
		level, fix := OK, ""
		if h.HugeAnon == "never" {
			level, fix = Warn, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
		}
		f.add(level, "huge pages", fix, "anonymous %s, tmpfs %s", orNone(h.HugeAnon), orNone(h.HugeTmp))
	}
	if h.MaxMaps > 0 {
		level, fix := OK, ""
		if h.MaxMaps < enoughMaps {
			level, fix = Warn, "sysctl -w vm.max_map_count=65530"
		}
		f.add(level, "max_map_count", fix, "%d mappings a process", h.MaxMaps)
	}
	switch {
	case h.Lock == hostinfo.Unlimited:
		f.add(OK, "memlock", "", "unlimited")
	case h.Lock > 0:
		f.add(OK, "memlock", "", "%s may be locked in memory (nothing is locked by default)", bytesize.Text(h.Lock))
	}
}

func orNone(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func list(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// count is "1 core", "2 cores".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
