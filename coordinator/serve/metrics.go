package serve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/dispatch"
	"github.com/moepool/moepool/coordinator/generation"
	"github.com/moepool/moepool/transport"
)

// Metrics are the Prometheus metrics of one coordinator.
type Metrics struct {
	registry   *prometheus.Registry
	prompt     prometheus.Counter
	generated  prometheus.Counter
	requests   *prometheus.CounterVec
	firstToken prometheus.Histogram
	latency    *prometheus.HistogramVec
	speed      rate
	failures   failures
}

// NewMetrics makes the metrics; Attach adds what a coordinator counts itself.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		prompt:    prometheus.NewCounter(prometheus.CounterOpts{Name: "moepool_prompt_tokens_total", Help: "Prompt tokens of answered requests."}),
		generated: prometheus.NewCounter(prometheus.CounterOpts{Name: "moepool_generated_tokens_total", Help: "Generated tokens."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "moepool_requests_total",
			Help: "Requests by how they finished: stop, length or error."}, []string{"finish_reason"}),
		firstToken: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "moepool_time_to_first_token_seconds",
			Help: "Time from the start of prefill to the first token.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 14)}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "moepool_worker_latency_seconds",
			Help: "Time from sending a layer's work to a worker to its result.", Buckets: prometheus.ExponentialBuckets(50e-6, 2, 16),
			NativeHistogramBucketFactor: 1.05, NativeHistogramMaxBucketNumber: 320}, []string{"worker"}), // where it is scraped as protobuf: quantiles within 5 %
	}
	m.registry.MustRegister(m.prompt, m.generated, m.requests, m.firstToken, m.latency)
	return m
}

// Attach adds the counters of a started coordinator.
func (m *Metrics) Attach(c *coordinator.Coordinator) { m.registry.MustRegister(newClusterCollector(c)) }

// ObserveWorker is coordinator.Options.ObserveWorker.
func (m *Metrics) ObserveWorker(a dispatch.Answer) {
	m.latency.WithLabelValues(a.Worker).Observe(a.Latency.Seconds())
}

// token counts a token for the speed of the moment.
func (m *Metrics) token() { m.speed.add(time.Now()) }

// answered counts a finished request; result may be nil.
func (m *Metrics) answered(result *generation.Result, err error) {
	if err != nil || result == nil {
		m.requests.WithLabelValues(generation.FinishError).Inc()
	} else {
		m.requests.WithLabelValues(result.FinishReason).Inc()
	}
	if result == nil || result.New() == 0 {
		return
	}
	m.prompt.Add(float64(result.PromptTokens))
	m.generated.Add(float64(result.New()))
	m.firstToken.Observe(result.Prefill.Seconds())
}

// metricShares are the bounds of budget_dropped_share: 0, and a few percentages.
var metricShares = []int{0, 1, 2, 5, 10, 20, 30, 50, 75}

// clusterCollector reads the counters that engine, dispatcher and workers keep anyway.
type clusterCollector struct {
	coordinator *coordinator.Coordinator
	metrics     map[string]*prometheus.Desc
}

func newClusterCollector(c *coordinator.Coordinator) *clusterCollector {
	collector := &clusterCollector{coordinator: c, metrics: map[string]*prometheus.Desc{}}
	describe := func(name, help string, labels ...string) {
		collector.metrics[name] = prometheus.NewDesc("moepool_"+name, help, labels, nil)
	}
	describe("expert_hits_total", "Expert parts that were in memory when they were needed.")
	describe("expert_misses_total", "Expert parts that were read when they were needed.")
	describe("expert_bytes_read_total", "Bytes of experts read from storage.")
	describe("expert_retries_total", "Shares of work that were sent again: their worker was lost, silent or refused them.")
	describe("expert_hedges_total", "Shares of work that were late and for which another worker was asked, too.")
	describe("expert_hedge_wins_total", "Hedges whose other worker was faster.")
	describe("expert_waits_total", "How often work waited for experts that no worker held.")
	describe("expert_wait_seconds_total", "For how long work waited for experts that no worker held.")
	describe("expert_dropped_parts_total", "Expert parts that were left out of a layer: no worker held them (--on-missing drop).")
	describe("expert_missing_mass_total", "Combine weight that rows lost with expert parts that were left out.")
	describe("expert_empty_rows_total", "Rows none of whose experts a worker held.")
	describe("budget_dropped_experts_total", "Experts of a layer that the budget dropped.")
	describe("budget_dropped_mass_total", "Combine weight that the budget removed from rows.")
	describe("budget_rescued_rows_total", "Rows whose best expert was kept over the budget.")
	describe("budget_lost_choices_total", "Experts that rows lost by the budget, summed over rows.")
	describe("budget_filled_choices_total", "Experts that rows took in place of lost ones.")
	describe("budget_governed_rows_total", "Rows of a layer that a budget could cut.")
	describe("budget_cut_rows_total", "Rows of a layer that lost experts by the budget and have not got all of them back.")
	describe("budget_dropped_bytes_total", "Bytes of dropped experts that were not in memory: what the budget saved at most.")
	describe("budget_bytes_not_read", "Bytes that had to be read less because of the budget, by the workers' ledgers; absent where one keeps none.")
	describe("budget_dropped_share", "Share of a row's weight that the budget removed in a layer.")
	describe("expert_miss_bytes_total", "Packed bytes of the expert parts that were not in memory when they were needed.")
	describePredictions(describe)
	describe("coordinator_leads", "1 if this coordinator answers requests: it leads its group, or is alone.")
	describe("coordinator_term", "Term that this coordinator leads its group in; 0 while it does not lead, or is alone.")
	describe("placement_epoch", "Epoch of the active placement; 0 without one.")
	describe("placement_uncovered_parts", "Expert parts of the active placement that no worker can compute at the moment.")
	describe("placements_total", "Placements that became active.")
	describe("placements_given_up_total", "Placements that were prepared and did not become active.")
	describe("placement_moved_bytes_total", "Bytes of experts that workers had to load for placements that became active.")
	describe("workers_lost_total", "How often a worker that was not asked to leave could not be used any more.")
	describe("workers", "Workers by state.", "state")
	describe("worker_lane", "1 for the lane that a worker's tensor traffic takes: nats or local.", "worker", "lane")
	describe("worker_requests_total", "Work messages that a worker answered.", "worker")
	describe("worker_failures_total", "Requests that a worker refused, or for which it was lost or silent.", "worker")
	describe("worker_late_total", "Requests that another worker, asked because this one was late, answered before.", "worker")
	describe("worker_hits_total", "Expert parts that a worker had in memory.", "worker")
	describe("worker_misses_total", "Expert parts that a worker had to read.", "worker")
	describe("worker_compute_seconds_total", "Time that a worker computed.", "worker")
	describe("worker_queue_seconds_total", "Time that work waited in a worker's queue.", "worker")
	describe("worker_arena_fallbacks", "Layers of a worker that are anonymous memory though files were asked for.", "worker")
	describe("worker_arena_bytes", "Packed bytes of experts that a worker holds.", "worker")
	describe("worker_pages_local", "Pages of experts on the worker's own NUMA node.", "worker")
	describe("worker_pages_remote", "Pages of experts on another NUMA node.", "worker")
	describe("worker_rss_anon_bytes", "Anonymous memory of a worker.", "worker")
	describeResidency(describe)
	return collector
}

// Describe implements prometheus.Collector.
func (c *clusterCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.metrics {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *clusterCollector) Collect(out chan<- prometheus.Metric) {
	emit := func(name string, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(c.metrics[name], kind, value, labels...)
	}
	totals := c.coordinator.Engine.Totals()
	emit("expert_hits_total", prometheus.CounterValue, float64(totals.Hits))
	emit("expert_misses_total", prometheus.CounterValue, float64(totals.Misses))
	emit("expert_bytes_read_total", prometheus.CounterValue, float64(totals.BytesRead))
	emit("expert_retries_total", prometheus.CounterValue, float64(totals.Retries))
	emit("expert_hedges_total", prometheus.CounterValue, float64(totals.Hedges))
	emit("expert_hedge_wins_total", prometheus.CounterValue, float64(totals.HedgeWins))
	emit("expert_waits_total", prometheus.CounterValue, float64(totals.Waits))
	emit("expert_wait_seconds_total", prometheus.CounterValue, totals.Waited.Seconds())
	emit("expert_dropped_parts_total", prometheus.CounterValue, float64(totals.DroppedParts))
	emit("expert_missing_mass_total", prometheus.CounterValue, totals.MissingMass)
	emit("expert_empty_rows_total", prometheus.CounterValue, float64(totals.EmptyRows))
	emit("budget_dropped_experts_total", prometheus.CounterValue, float64(totals.DroppedExperts))
	emit("budget_dropped_mass_total", prometheus.CounterValue, totals.DroppedMass)
	emit("budget_rescued_rows_total", prometheus.CounterValue, float64(totals.RescuedRows))
	emit("budget_lost_choices_total", prometheus.CounterValue, float64(totals.LostChoices))
	emit("budget_filled_choices_total", prometheus.CounterValue, float64(totals.FilledChoices))
	emit("budget_governed_rows_total", prometheus.CounterValue, float64(totals.Shares.Rows))
	emit("budget_cut_rows_total", prometheus.CounterValue, float64(totals.CutRows))
	emit("budget_dropped_bytes_total", prometheus.CounterValue, float64(totals.DroppedBytes))
	if bytes, known := totals.BytesNotRead(); known {
		emit("budget_bytes_not_read", prometheus.GaugeValue, float64(bytes))
	}
	out <- prometheus.MustNewConstHistogram(c.metrics["budget_dropped_share"], totals.Shares.Rows, totals.Shares.Sum, totals.Shares.Below(metricShares))
	emit("expert_miss_bytes_total", prometheus.CounterValue, float64(totals.MissBytes))
	collectPredictions(emit, c.coordinator.Engine.Predictions())

	members, dispatcher := c.coordinator.Members(), c.coordinator.Dispatcher()
	emit("coordinator_term", prometheus.GaugeValue, float64(c.coordinator.LeadsTerm()))
	if members == nil || dispatcher == nil {
		emit("coordinator_leads", prometheus.GaugeValue, 0)
		return
	}
	emit("coordinator_leads", prometheus.GaugeValue, 1)
	states := map[transport.WorkerState]int{}
	workers := members.Workers()
	for i := range workers {
		b := &workers[i]
		states[b.State]++
		emit("worker_lane", prometheus.GaugeValue, 1, b.Worker, members.Lane(b.Worker))
		emit("worker_arena_fallbacks", prometheus.GaugeValue, float64(b.Arena.Fallbacks), b.Worker)
		emit("worker_arena_bytes", prometheus.GaugeValue, float64(b.Arena.Bytes), b.Worker)
		emit("worker_pages_local", prometheus.GaugeValue, float64(b.Pages.Local), b.Worker)
		emit("worker_pages_remote", prometheus.GaugeValue, float64(b.Pages.Remote), b.Worker)
		emit("worker_rss_anon_bytes", prometheus.GaugeValue, float64(b.RSSAnon), b.Worker)
		collectResidency(emit, b.Worker, &b.Residency)
	}
	for state, n := range states {
		emit("workers", prometheus.GaugeValue, float64(n), string(state))
	}
	status := members.Status()
	epoch := uint64(0)
	if status.Active != nil {
		epoch = status.Active.Epoch
	}
	emit("placement_epoch", prometheus.GaugeValue, float64(epoch))
	emit("placement_uncovered_parts", prometheus.GaugeValue, float64(status.Uncovered))
	emit("placements_total", prometheus.CounterValue, float64(status.Totals.Placements))
	emit("placements_given_up_total", prometheus.CounterValue, float64(status.Totals.GivenUp))
	emit("placement_moved_bytes_total", prometheus.CounterValue, float64(status.Totals.Moved))
	emit("workers_lost_total", prometheus.CounterValue, float64(status.Totals.Lost))
	for worker, n := range dispatcher.Counters() {
		emit("worker_requests_total", prometheus.CounterValue, float64(n.Requests), worker)
		emit("worker_failures_total", prometheus.CounterValue, float64(n.Failures), worker)
		emit("worker_late_total", prometheus.CounterValue, float64(n.Late), worker)
		emit("worker_compute_seconds_total", prometheus.CounterValue, n.ComputeTime.Seconds(), worker)
		emit("worker_queue_seconds_total", prometheus.CounterValue, n.QueueTime.Seconds(), worker)
		emit("worker_hits_total", prometheus.CounterValue, float64(n.Hits), worker)
		emit("worker_misses_total", prometheus.CounterValue, float64(n.Misses), worker)
	}
}
