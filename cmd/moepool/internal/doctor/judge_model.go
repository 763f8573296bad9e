package doctor

import (
	"fmt"
	"time"

	"github.com/moepool/moepool/internal/bytesize"
)

// slowDisk is a read speed in MB/s below which misses dominate everything: that of a single hard disk.
const slowDisk = 200

// judgeArena looks at the arena folder alone.
func judgeArena(h *Facts) []Finding {
	f := &findings{section: sectionArena}
	a := h.Arena
	const elsewhere = "--arena-dir DIR on a disk of this host"
	switch {
	case a.Dir == "":
		f.add(OK, "folder", "", "none: experts lie in anonymous memory and are packed at each start")
		return f.list
	case a.Error != "":
		f.add(Warn, "folder", elsewhere, "%s; experts would lie in anonymous memory", a.Error)
		return f.list
	case a.Space.TotalBytes == 0: // a pseudo file system such as /proc
		f.add(Warn, "folder", elsewhere, "%s: %s holds no files; experts would lie in anonymous memory", a.Dir, a.Space.Dir)
		return f.list
	case !a.Space.Writable:
		f.add(Warn, "folder", "make it writable, or "+elsewhere, "%s: %s is not writable; experts would lie in anonymous memory", a.Dir, a.Space.Dir)
		return f.list
	}
	f.add(OK, "folder", "", "%s", a.Dir)
	kind := fmt.Sprintf("%s, %s free of %s", a.Space.FileSystem, bytesize.Text(a.Space.FreeBytes), bytesize.Text(a.Space.TotalBytes))
	switch a.Space.FileSystem {
	case "tmpfs", "hugetlbfs":
		f.add(OK, "disk", "", "%s; it is memory: quick, but gone with a reboot", kind)
	case "nfs", "9p", "fuse":
		f.add(Warn, "disk", elsewhere, "%s; misses go over a network or a user process, and mapped files may be slow", kind)
	default:
		f.add(OK, "disk", "", "%s", kind)
	}
	switch {
	case a.SpeedError != "":
		f.add(Warn, "disk speed", "", "not measured: %s", a.SpeedError)
	case a.Speed > 0 && a.Speed < slowDisk:
		f.add(Warn, "disk speed", elsewhere, "%.0f MB/s: an expert that is not in memory takes long", a.Speed)
	case a.Speed > 0:
		f.add(OK, "disk speed", "", "%.0f MB/s", a.Speed)
	}
	if m := a.Mapped; m != nil && m.Resident > 0 {
		f.add(OK, "mapped now", "", "%s in memory by running workers, %.0f %% of it in huge pages", bytesize.Text(m.Resident), 100*float64(m.Huge)/float64(m.Resident))
	}
	return f.list
}

// judgeModel looks at whether a model fits, and where.
func judgeModel(h *Facts, m *Fit) []Finding {
	f := &findings{section: sectionModel}
	f.add(OK, "model", "", "%s: %s, %s", m.Dir, m.Family, count(m.Layers, "layer"))
	f.add(OK, "dense", "", "%s in %s", bytesize.Text(m.DenseBytes), m.DenseFormat)
	f.add(OK, "kv cache", "", "%s in %s for a context of %d", bytesize.Text(m.KVBytes), m.KVFormat, m.Context)
	if m.MoELayers > 0 {
		f.add(OK, "experts", "", "%s in %s: %s of %d, top %d: a token reads %s", bytesize.Text(m.ExpertBytes), m.Format, count(m.MoELayers, "layer"), m.Experts,
			m.TopK, bytesize.Text(m.TokenBytes))
	}
	files, anonymous := f.disk(h, m)
	f.total(h, m, files, anonymous)
	f.perNode(h, m)
	f.maps(h, m)
	return f.list
}

// disk says how many of the experts' bytes will be in files on a disk, and how many in memory that the kernel can't take back.
func (f *findings) disk(h *Facts, m *Fit) (files, anonymous int64) {
	a := h.Arena
	if m.ExpertBytes == 0 || !a.usable() {
		return 0, m.ExpertBytes
	}
	present := m.onDisk()
	missing := m.ExpertBytes - present
	text := fmt.Sprintf("%s to pack in %s", bytesize.Text(missing), a.Dir)
	if present > 0 {
		text = fmt.Sprintf("%s packed already, %s", bytesize.Text(present), text)
	}
	if missing > a.Space.FreeBytes {
		rest := missing - a.Space.FreeBytes
		f.add(Warn, "disk space", fmt.Sprintf("free %s, or --arena-dir DIR with room", bytesize.Text(rest)),
			"%s, %s free: %s would lie in anonymous memory", text, bytesize.Text(a.Space.FreeBytes), bytesize.Text(rest))
		missing, anonymous = missing-rest, rest
	} else {
		f.add(OK, "disk space", "", "%s, %s free", text, bytesize.Text(a.Space.FreeBytes))
	}
	if a.inMemory() {
		return 0, anonymous + missing // what is present is used memory already
	}
	return present + missing, anonymous
}

// total compares what is needed with the memory that there is.
func (f *findings) total(h *Facts, m *Fit, files, anonymous int64) {
	available, why := h.available()
	if available == 0 {
		f.add(Warn, "memory", "", "%s needed; what is available is unknown", bytesize.Text(m.DenseBytes+m.KVBytes+files+anonymous))
		return
	}
	must := m.DenseBytes + m.KVBytes + anonymous
	if must > available {
		fix := "more memory, a smaller --context, or a smaller --format or --dense-format"
		if anonymous > 0 {
			fix = "--arena-dir DIR on a disk with room for the experts, a smaller --context, or a smaller --format"
		}
		f.add(Fail, "memory", fix, "%s needed that can't be given back (dense %s, kv %s, experts %s), %s %s", bytesize.Text(must), bytesize.Text(m.DenseBytes),
			bytesize.Text(m.KVBytes), bytesize.Text(anonymous), bytesize.Text(available), why)
		return
	}
	if room := available - must; files > room {
		text := fmt.Sprintf("%s of the %s of experts stay in memory (%s %s, less dense and kv)", bytesize.Text(room), bytesize.Text(m.ExpertBytes), bytesize.Text(available), why)
		if h.Arena.Speed > 0 {
			// Uniform use is the worst case: the share of a token's experts that is not in memory.
			seconds := float64(m.TokenBytes) * float64(files-room) / float64(m.ExpertBytes) / (h.Arena.Speed * 1e6)
			text += fmt.Sprintf("; reading the others takes up to %s a token", time.Duration(seconds*float64(time.Second)).Round(100*time.Microsecond))
		}
		f.add(Warn, "memory", "a smaller --format, more hosts or memory, or --expert-budget", "%s", text)
		return
	}
	f.add(OK, "memory", "", "all fits: %s needed, %s %s", bytesize.Text(must+files), bytesize.Text(available), why)
}

// perNode says where the experts go.
func (f *findings) perNode(h *Facts, m *Fit) {
	for _, n := range h.Topology.ComputeNodes() {
		var bytes int64
		workers := 0
		for _, w := range m.Workers {
			if w.Node == n.ID {
				bytes += w.Bytes
				workers++
			}
		}
		if workers == 0 {
			continue
		}
		subject := fmt.Sprintf("node %d", n.ID)
		text := fmt.Sprintf("%s, %s of experts", count(workers, "worker"), bytesize.Text(bytes))
		switch {
		case n.MemoryBytes == 0:
			f.add(OK, subject, "", "%s", text)
		case bytes > n.AvailableBytes && len(h.Topology.Nodes) > 1:
			f.add(Warn, subject, "fewer bytes on this node: a smaller --format, or memory in use there freed",
				"%s, %s of %s available: the rest goes to other nodes", text, bytesize.Text(n.AvailableBytes), bytesize.Text(n.MemoryBytes))
		default:
			f.add(OK, subject, "", "%s, %s of %s available", text, bytesize.Text(n.AvailableBytes), bytesize.Text(n.MemoryBytes))
		}
	}
}

// ownMaps is about what a process has mapped without arenas.
const ownMaps = 500

// maps compares the mappings of a worker with the limit: a file has one.
func (f *findings) maps(h *Facts, m *Fit) {
	if h.MaxMaps == 0 || m.MoELayers == 0 {
		return
	}
	if needed := m.MoELayers*m.Parts + ownMaps; needed > h.MaxMaps {
		f.add(Fail, "mappings", fmt.Sprintf("sysctl -w vm.max_map_count=%d", max(65530, 2*needed)),
			"a worker needs about %d mappings, vm.max_map_count is %d", needed, h.MaxMaps)
	}
}
