package main

import (
	"fmt"
	"time"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/generation"
	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/coordinator/serve"
	"github.com/moepool/moepool/transport"
)

// runReport is what `run --json` prints.
type runReport struct {
	Text         string          `json:"text"`
	Tokens       []int32         `json:"tokens"`
	FinishReason string          `json:"finish_reason"`
	Error        string          `json:"error,omitempty"`
	Usage        usageReport     `json:"usage"`
	Timings      timingsReport   `json:"timings"`
	Workers      []workerReport  `json:"workers"`
	Budget       *budgetReport   `json:"budget,omitempty"`
	Experts      *expertReport   `json:"experts,omitempty"`
	Prefetch     *prefetchReport `json:"prefetch,omitempty"`
	Notes        []string        `json:"notes"` // degraded modes

	Resubmissions int `json:"resubmissions,omitempty"` // --nats: how often the answer was continued after its coordinator was lost

	DensePages []model.Placement `json:"dense_pages,omitempty"` // of the coordinator's weights, by the NUMA node that reads them; only with several
}

type usageReport struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

type timingsReport struct {
	Load            float64 `json:"load_s"`
	Prefill         float64 `json:"prefill_s"`
	Decode          float64 `json:"decode_s"`
	TokensPerSecond float64 `json:"tokens_per_s"`
}

type workerReport struct {
	ID      string                `json:"id"`
	PID     int                   `json:"pid"`
	Node    int                   `json:"node"`
	CPUs    []int                 `json:"cpus"`
	Kernels string                `json:"kernels"`
	Experts int                   `json:"experts"` // expert parts that it holds
	Arena   transport.ArenaReport `json:"arena"`
	Pages   transport.PagesReport `json:"pages"`
	RSSAnon int64                 `json:"rss_anon"`
	Lane    string                `json:"lane"` // of the tensor traffic: nats or local

	Residency transport.ResidencyReport `json:"residency"`
}

// newRunReport describes an answer; result may be nil when there is none.
func newRunReport(result *generation.Result, failure error, loaded time.Duration) *runReport {
	r := &runReport{FinishReason: generation.FinishError, Tokens: []int32{}, Workers: []workerReport{}, Notes: []string{}}
	r.Timings.Load = loaded.Seconds()
	if failure != nil {
		r.Error = failure.Error()
	}
	if result == nil {
		return r
	}
	r.Text, r.FinishReason = result.Text, result.FinishReason
	r.Tokens = append(r.Tokens, result.Tokens...)
	r.Usage = usageReport{PromptTokens: result.PromptTokens, CompletionTokens: len(result.Tokens)}
	r.Timings.Prefill, r.Timings.Decode = result.Prefill.Seconds(), result.Decode.Seconds()
	r.Timings.TokensPerSecond = result.TokensPerSecond()
	return r
}

// describe adds what the cluster's workers and budget say.
func (r *runReport) describe(c *coordinator.Coordinator, policy budget.Policy, totals engine.Totals) {
	for _, b := range c.Members().Workers() {
		r.Workers = append(r.Workers, workerReport{
			ID: b.Worker, PID: b.PID, Node: b.Node, CPUs: b.CPUs, Kernels: b.Kernels, Experts: b.ExpertParts,
			Arena: b.Arena, Pages: b.Pages, RSSAnon: b.RSSAnon, Lane: c.Members().Lane(b.Worker), Residency: b.Residency,
		})
		for _, note := range b.Notes {
			r.Notes = append(r.Notes, b.Worker+": "+note)
		}
		if why := c.Members().LaneProblem(b.Worker); why != "" {
			r.Notes = append(r.Notes, b.Worker+": "+why)
		}
	}
	var problem string
	if r.DensePages, problem = c.Engine.DensePlacement(); problem != "" {
		r.Notes = append(r.Notes, problem)
	}
	r.Prefetch = newPrefetchReport(c.Engine.Predictions())
	r.use(serve.Usage(c, policy, &totals))
}

// use adds what an answer cost in experts, and a note if some were left out.
func (r *runReport) use(u *transport.ExpertUsage) {
	r.Budget, r.Experts = newBudgetReport(u), newExpertReport(u)
	if u.DroppedParts > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d times an expert part was left out of a layer: no worker held it (--on-missing drop)", u.DroppedParts))
	}
}
