package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/moepool/moepool/transport"
)

// describeResidency describes what workers say of the experts in their memory.
func describeResidency(describe func(name, help string, labels ...string)) {
	describe("worker_resident_bytes", "Bytes of experts in a worker's memory.", "worker")
	describe("worker_resident_limit_bytes", "Bytes of experts that a worker keeps in memory at most; 0 without a limit.", "worker")
	describe("worker_expert_hits_total", "Expert parts that a worker had in memory when they were needed, since its start.", "worker")
	describe("worker_expert_misses_total", "Expert parts that a worker did not have in memory when they were needed, since its start.", "worker")
	describe("worker_miss_bytes_total", "Packed bytes of the expert parts that a worker did not have in memory.", "worker")
	describe("worker_ghost_bytes_total", "Packed bytes that a worker would have read without a budget; only with a resident limit.", "worker")
	describe("worker_read_bytes_total", "Bytes that a worker read from block devices while it computed.", "worker")
	describe("worker_major_faults_total", "Page faults of a worker that waited for a disk while it computed.", "worker")
	describe("worker_evictions_total", "Expert parts that a worker evicted because of its resident limit.", "worker")
	describe("worker_reclaimed_total", "Expert parts that the kernel took away though they were within the resident limit.", "worker")
	describe("worker_prefetched_total", "Expert parts that a worker read because of hints.", "worker")
	describe("worker_prefetch_used_total", "Prefetched expert parts that were needed afterwards.", "worker")
	describe("worker_prefetch_late_total", "Prefetched expert parts that were still being read when they were needed.", "worker")
	describe("worker_prefetch_off", "1 if a worker doesn't follow hints.", "worker")
	describe("worker_warm_bytes", "Bytes that a worker has brought into memory before it is ready.", "worker")
	describe("worker_warm_total_bytes", "Bytes that a worker is to bring into memory before it is ready.", "worker")
	describe("worker_locked_bytes", "Bytes of experts that are locked in a worker's memory.", "worker")
}

// collectResidency gives the metrics of one worker.
func collectResidency(emit func(name string, kind prometheus.ValueType, value float64, labels ...string), worker string, r *transport.ResidencyReport) {
	gauge := func(name string, value int64) { emit(name, prometheus.GaugeValue, float64(value), worker) }
	count := func(name string, value uint64) { emit(name, prometheus.CounterValue, float64(value), worker) }
	gauge("worker_resident_bytes", r.Resident)
	gauge("worker_resident_limit_bytes", r.Limit)
	count("worker_expert_hits_total", r.Hits)
	count("worker_expert_misses_total", r.Misses)
	count("worker_miss_bytes_total", uint64(r.MissBytes))
	if r.GhostBytes >= 0 {
		count("worker_ghost_bytes_total", uint64(r.GhostBytes))
	}
	count("worker_read_bytes_total", uint64(r.BytesRead))
	count("worker_major_faults_total", r.MajorFaults)
	count("worker_evictions_total", r.Evictions)
	count("worker_reclaimed_total", r.Reclaimed)
	count("worker_prefetched_total", r.Prefetched)
	count("worker_prefetch_used_total", r.PrefetchUsed)
	count("worker_prefetch_late_total", r.PrefetchLate)
	off := int64(0)
	if r.PrefetchOff {
		off = 1
	}
	gauge("worker_prefetch_off", off)
	gauge("worker_warm_bytes", r.WarmDone)
	gauge("worker_warm_total_bytes", r.WarmTotal)
	gauge("worker_locked_bytes", r.Locked)
}
