package transport

import "math"

func (m *Identity) fields(w *wire) {
	w.array("identity", 6)
	w.int(&m.Protocol, "protocol", 0, math.MaxInt32)
	w.string(&m.Build, "build", maxText)
	w.string(&m.ModelDigest, "model digest", maxText)
	w.string(&m.Format, "format", maxText)
	w.int(&m.Parts, "parts", 0, MaxLayerParts)
	w.int(&m.Layout, "layout version", 0, math.MaxInt32)
}

func (m *Beat) fields(w *wire) {
	w.array("beat", 32)
	w.string(&m.Worker, "worker", maxText)
	w.string(&m.Instance, "instance", maxText)
	w.string(&m.Host, "host", maxText)
	w.int(&m.Node, "node", -1, math.MaxInt32)
	w.int(&m.PID, "pid", 0, math.MaxInt32)
	m.cpuFields(w)
	w.int(&m.Threads, "threads", 0, math.MaxInt32)
	w.string(&m.Kernels, "kernels", maxText)
	w.int64(&m.Capacity, "capacity", 0, math.MaxInt64)
	m.Identity.fields(w)
	w.string((*string)(&m.State), "state", maxText)
	w.string(&m.Error, "error", maxText)
	w.uint64(&m.Epoch, "epoch", math.MaxUint64)
	w.uint64(&m.Term, "term", math.MaxUint64)
	w.string(&m.Coordinator, "coordinator", maxText)
	m.servedFields(w)
	w.int64(&m.LoadedBytes, "loaded bytes", 0, math.MaxInt64)
	w.int64(&m.TotalBytes, "total bytes", 0, math.MaxInt64)
	w.int(&m.ExpertParts, "expert parts", 0, math.MaxInt32)
	m.Arena.fields(w)
	m.Pages.fields(w)
	w.int64(&m.RSSAnon, "rss anon", 0, math.MaxInt64)
	m.residentFields(w)
	w.uint64(&m.Results, "results", math.MaxUint64)
	m.Residency.fields(w)
	m.noteFields(w)
	w.bool(&m.Bound, "bound")
	m.Lane.fields(w)
	w.int(&m.Queue, "queue", 0, math.MaxInt32)
	m.timeFields(w)
	w.int64(&m.ComputedBytes, "computed bytes", 0, math.MaxInt64)
	w.int64(&m.ComputeTime, "compute time", 0, math.MaxInt64)
}

func (m *Beat) servedFields(w *wire) {
	n := len(m.Serves)
	w.count(&n, "serves", 1, MaxServed)
	if w.err != nil {
		return
	}
	if w.reading {
		m.Serves = resize(m.Serves, n)
	}
	for i := range m.Serves {
		w.uint64(&m.Serves[i], "serves", math.MaxUint64)
		if w.err == nil && i > 0 && m.Serves[i-1] >= m.Serves[i] {
			w.fail("serves", "%d follows %d; they must ascend", m.Serves[i], m.Serves[i-1])
		}
	}
}

func (m *Beat) timeFields(w *wire) {
	n := len(m.LayerTimes)
	w.count(&n, "layer times", 8, MaxLayers)
	if w.err != nil {
		return
	}
	if w.reading {
		m.LayerTimes = resize(m.LayerTimes, n)
	}
	for i := range m.LayerTimes {
		l := &m.LayerTimes[i]
		w.array("layer times", 7)
		w.int(&l.Layer, "layer", 0, MaxLayers)
		w.uint64(&l.Count, "count", math.MaxUint64)
		w.int64(&l.Nanoseconds, "nanoseconds", 0, math.MaxInt64)
		w.uint64(&l.Hits, "hits", math.MaxUint64)
		w.uint64(&l.Misses, "misses", math.MaxUint64)
		w.int64(&l.BytesRead, "bytes read", 0, math.MaxInt64)
		w.uint64(&l.MajorFaults, "major faults", math.MaxUint64)
		if w.err == nil && i > 0 && m.LayerTimes[i-1].Layer >= l.Layer {
			w.fail("layer times", "%d follows %d; they must ascend", l.Layer, m.LayerTimes[i-1].Layer)
		}
	}
}

func (m *Beat) cpuFields(w *wire) {
	n := len(m.CPUs)
	w.count(&n, "cpus", 1, maxCPUs)
	if w.err != nil {
		return
	}
	if w.reading {
		m.CPUs = resize(m.CPUs, n)
	}
	for i := range m.CPUs {
		w.int(&m.CPUs[i], "cpus", 0, math.MaxInt32)
	}
}

func (m *Beat) residentFields(w *wire) {
	n := len(m.Resident)
	w.count(&n, "resident", 3, MaxLayers)
	if w.err != nil {
		return
	}
	if w.reading {
		m.Resident = make([]LayerBitmap, n)
	}
	for i := range m.Resident {
		w.array("resident", 2)
		w.int(&m.Resident[i].Layer, "layer", 0, MaxLayers)
		w.bytes(&m.Resident[i].Bits, "bits", MaxLayerParts/8)
	}
}

func (m *Beat) noteFields(w *wire) {
	n := len(m.Notes)
	w.count(&n, "notes", 1, maxNotes)
	if w.err != nil {
		return
	}
	if w.reading {
		m.Notes = make([]string, n)
	}
	for i := range m.Notes {
		w.string(&m.Notes[i], "notes", maxText)
	}
}

func (m *ArenaReport) fields(w *wire) {
	w.array("arena", 5)
	w.int(&m.Files, "files", 0, math.MaxInt32)
	w.int64(&m.Bytes, "bytes", 0, math.MaxInt64)
	w.int64(&m.PackedBytes, "packed bytes", 0, math.MaxInt64)
	w.int64(&m.ReusedBytes, "reused bytes", 0, math.MaxInt64)
	w.int(&m.Fallbacks, "fallbacks", 0, math.MaxInt32)
}

func (m *ResidencyReport) fields(w *wire) {
	w.array("residency", 19)
	w.int64(&m.Limit, "limit", 0, math.MaxInt64)
	w.string(&m.Eviction, "eviction", maxText)
	w.int64(&m.Resident, "resident bytes", 0, math.MaxInt64)
	w.uint64(&m.Hits, "hits", math.MaxUint64)
	w.uint64(&m.Misses, "misses", math.MaxUint64)
	w.int64(&m.MissBytes, "miss bytes", 0, math.MaxInt64)
	w.int64(&m.BytesRead, "bytes read", 0, math.MaxInt64)
	w.int64(&m.GhostBytes, "ghost bytes", -1, math.MaxInt64)
	w.uint64(&m.MajorFaults, "major faults", math.MaxUint64)
	w.uint64(&m.Evictions, "evictions", math.MaxUint64)
	w.uint64(&m.Reclaimed, "reclaimed", math.MaxUint64)
	w.uint64(&m.Prefetched, "prefetched", math.MaxUint64)
	w.uint64(&m.PrefetchUsed, "prefetch used", math.MaxUint64)
	w.uint64(&m.PrefetchLate, "prefetch late", math.MaxUint64)
	w.bool(&m.PrefetchOff, "prefetch off")
	w.string(&m.Warm, "warm", maxText)
	w.int64(&m.WarmDone, "warm done", 0, math.MaxInt64)
	w.int64(&m.WarmTotal, "warm total", 0, math.MaxInt64)
	w.int64(&m.Locked, "locked", 0, math.MaxInt64)
}

func (m *PagesReport) fields(w *wire) {
	w.array("pages", 2)
	w.int64(&m.Local, "local", 0, math.MaxInt64)
	w.int64(&m.Remote, "remote", 0, math.MaxInt64)
}

func (m *CoordinatorBeat) fields(w *wire) {
	w.array("coordinator", 4)
	w.string(&m.Instance, "instance", maxText)
	w.uint64(&m.Term, "term", math.MaxUint64)
	w.uint64(&m.Epoch, "epoch", math.MaxUint64)
	m.Identity.fields(w)
}

// control is a message that is acknowledged by its number, with the instance that it is meant for ("" is whoever has the id).
// In a Refuse frame these fields and the reason stay what they are in every version of the protocol, so that a worker of
// another version can read why it is refused.
type control struct {
	number  uint64
	target  string
	message message
}

func (m *control) fields(w *wire) {
	w.array("control", 3)
	w.uint64(&m.number, "number", math.MaxUint64)
	w.string(&m.target, "target", maxText)
	m.message.fields(w)
}

// ack answers a control message; code is "" if it was taken.
type ack struct {
	number  uint64
	code    ErrorCode
	message string
}

func (m *ack) fields(w *wire) {
	w.array("ack", 3)
	w.uint64(&m.number, "number", math.MaxUint64)
	w.string((*string)(&m.code), "code", maxText)
	if !w.reading && len(m.message) > maxText {
		m.message = m.message[:maxText]
	}
	w.string(&m.message, "message", maxText)
}

func (m *Assign) fields(w *wire) {
	w.array("assign", 5)
	w.string(&m.Coordinator, "coordinator", maxText)
	w.uint64(&m.Epoch, "epoch", math.MaxUint64)
	w.uint64(&m.Term, "term", math.MaxUint64)
	m.Identity.fields(w)
	if w.reading {
		m.Layers = nil // an assignment is kept
	}
	layerLists(w, &m.Layers, "layers")
	for i := 1; i < len(m.Layers) && w.err == nil; i++ {
		if before, l := m.Layers[i-1].Layer, m.Layers[i].Layer; before >= l {
			w.fail("layers", "%d follows %d; they must ascend", l, before)
		}
	}
}

func (m *Refuse) fields(w *wire) {
	w.array("refuse", 1)
	w.string(&m.Reason, "reason", maxText)
}

func (m *Drain) fields(w *wire) { w.array("drain", 0) }
