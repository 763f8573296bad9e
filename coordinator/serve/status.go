package serve

import (
	"context"
	"time"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/membership"
	"github.com/moepool/moepool/transport"
)

// Status is what `moepool status` shows: everything that a coordinator knows of its cluster at one moment.
type Status struct {
	Cluster  string                   `json:"cluster"`
	Leader   string                   `json:"leader"` // id of the coordinator in its group; "" if it is alone
	Build    string                   `json:"build"`
	Started  time.Time                `json:"started"` // when it began to lead
	Serves   bool                     `json:"serves"`  // answers requests
	Model    ModelStatus              `json:"model"`
	Requests RequestStatus            `json:"requests"`
	Experts  ExpertStatus             `json:"experts"`
	Workers  map[string]WorkerTraffic `json:"traffic"`         // by worker id; see Members for their states
	Members  membership.Status        `json:"members"`         // workers and placement
	Failures []Failure                `json:"failures"`        // the latest failed requests, oldest first
	Group    *coordinator.GroupStatus `json:"group,omitempty"` // nil: the coordinator is alone
}

// ModelStatus is the model that a cluster serves.
type ModelStatus struct {
	Digest  string `json:"digest"`
	Family  string `json:"family"`
	Format  string `json:"format"` // of the experts
	Parts   int    `json:"parts"`  // that an expert is packed in
	Context int    `json:"context"`
	Budget  string `json:"budget"` // of requests that bring none
}

// RequestStatus counts requests.
type RequestStatus struct {
	transport.GenerateCounters
	TokensPerSecond float64 `json:"tokens_per_s"` // over the last ten seconds
	Generated       uint64  `json:"generated_tokens"`
}

// ExpertStatus counts expert parts that rows needed.
type ExpertStatus struct {
	Hits           int     `json:"hits"` // in memory when they were needed
	Misses         int     `json:"misses"`
	BytesRead      int64   `json:"bytes_read"`
	DroppedExperts int     `json:"dropped_experts"` // by budgets
	DroppedMass    float64 `json:"dropped_mass"`
}

// WorkerTraffic is what the coordinator has had from a worker.
type WorkerTraffic struct {
	Requests uint64  `json:"requests"`
	Failures uint64  `json:"failures"`
	Latency  float64 `json:"latency_s"` // mean, of a layer's work
	Compute  float64 `json:"compute_s"` // mean
	Queue    float64 `json:"queue_s"`   // mean
}

// Failure is a request that ended with an error.
type Failure struct {
	Time  time.Time `json:"time"`
	Error string    `json:"error"`
}

// status reads what is known at present.
func (s *Server) status(ctx context.Context) (*Status, error) {
	members, dispatcher := s.coordinator.Members(), s.coordinator.Dispatcher()
	if members == nil || dispatcher == nil {
		return nil, &coordinator.NotLeadingError{}
	}
	c := s.coordinator
	var totals engine.Totals
	if e := s.engine.Load(); e != nil {
		totals = e.Totals()
	}
	status := &Status{
		Cluster: s.o.Cluster, Leader: s.o.Leader, Build: s.o.Version, Started: s.started, Serves: s.engine.Load() != nil,
		Model: ModelStatus{Digest: c.Identity.ModelDigest, Family: c.Checkpoint.Config().Family, Format: c.Identity.Format,
			Parts: c.Identity.Parts, Context: c.Context(), Budget: c.Budget().String()},
		Requests: RequestStatus{GenerateCounters: s.service.Counters(), TokensPerSecond: s.o.Metrics.speed.perSecond(time.Now()),
			Generated: s.o.Metrics.speed.total()},
		Experts: ExpertStatus{Hits: totals.Hits, Misses: totals.Misses, BytesRead: totals.BytesRead,
			DroppedExperts: totals.DroppedExperts, DroppedMass: totals.DroppedMass},
		Workers: map[string]WorkerTraffic{}, Members: members.Status(), Failures: s.o.Metrics.failures.list(),
	}
	for id, n := range dispatcher.Counters() {
		w := WorkerTraffic{Requests: n.Requests, Failures: n.Failures}
		if n.Requests > 0 {
			each := 1 / float64(n.Requests)
			w.Latency, w.Compute, w.Queue = n.Latency.Seconds()*each, n.ComputeTime.Seconds()*each, n.QueueTime.Seconds()*each
		}
		status.Workers[id] = w
	}
	var err error
	status.Group, err = c.Group(ctx)
	return status, err
}
