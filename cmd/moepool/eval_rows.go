package main

import (
	"math"
	"slices"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/evaluation"
	"github.com/moepool/moepool/internal/bytesize"
)

// evalRow is one row of `eval --json`. What was not measured is null.
type evalRow struct {
	Format        string `json:"format"`
	Arm           string `json:"arm"` // reference, null or budget
	Budget        string `json:"budget"`
	ResidentLimit *int64 `json:"resident_limit"` // bytes of all workers together
	Phase         string `json:"phase"`          // in which the text was computed: prefill or decode
	Rows          int    `json:"rows"`           // windows at once
	Start         string `json:"start"`          // what was in memory when the run began

	Perplexity float64 `json:"perplexity"`
	NLL        float64 `json:"nll"`    // summed over the predicted tokens
	Tokens     int     `json:"tokens"` // predicted

	ReferenceFormat     *string  `json:"reference_format"`
	ReferencePerplexity *float64 `json:"reference_perplexity"`
	KLDMean             *float64 `json:"kld_mean"` // nats a token
	KLDMeanError        *float64 `json:"kld_mean_error"`
	KLDP999             *float64 `json:"kld_p999"` // 99.9 % of the tokens have less
	KLDMax              *float64 `json:"kld_max"`
	RMSDeltaP           *float64 `json:"rms_dp"`           // a fraction of 1
	SameTopP            *float64 `json:"same_top_p"`       // a fraction of 1
	GreedyAgreement     *float64 `json:"greedy_agreement"` // tokens, the mean over the continuations
	GreedyMedian        *float64 `json:"greedy_agreement_median"`
	GreedyTokens        *int     `json:"greedy_tokens"` // of a continuation

	TokensPerSecond      float64  `json:"tokens_per_s"`
	HitRate              *float64 `json:"hit_rate"`                 // of expert parts, a fraction of 1
	MissBytesPerToken    float64  `json:"miss_bytes_per_token"`     // packed bytes of the expert parts that were not in memory
	BytesReadPerToken    float64  `json:"bytes_read_per_token"`     // from block devices
	BytesNotReadPerToken *float64 `json:"bytes_not_read_per_token"` // less than without the budget, by the ledgers' accounts; null without a ledger
	MajorFaults          int64    `json:"major_faults"`
	DroppedMassMean      float64  `json:"dropped_mass_mean"` // share of a row's mass in a layer, over all rows and layers that the budget governs
	DroppedMassP99       float64  `json:"dropped_mass_p99"`  // up to 0.01 too large
	DroppedMassMax       float64  `json:"dropped_mass_max"`
	DroppedExperts       int      `json:"dropped_experts"`
	FilledChoices        int      `json:"filled_choices"`
	RescuedRows          int      `json:"rescued_rows"`
	Pareto               bool     `json:"pareto"` // no other row of the same limit and reference is as fast and as good
}

// newRow begins the row of an arm on the model that runs.
func (e *evaluator) newRow(format, start string, arm *evalArm) evalRow {
	row := evalRow{Format: format, Arm: arm.kind, Budget: arm.policy.String(), Phase: "decode", Rows: e.plan.rows, Start: start}
	if e.plan.chunk > 0 {
		row.Phase, row.Rows = "prefill", 1
	}
	if limit := e.resident(); limit > 0 {
		row.ResidentLimit = &limit
	}
	return row
}

// count fills in what a run gave and cost.
func (r *evalRow) count(result evaluation.Result, used engine.Totals) {
	r.Perplexity, r.NLL, r.Tokens, r.TokensPerSecond = result.Value(), result.NLL, result.Tokens, result.TokensPerSecond()
	if all := used.Hits + used.Misses; all > 0 {
		rate := float64(used.Hits) / float64(all)
		r.HitRate = &rate
	}
	tokens := float64(result.Tokens)
	r.MissBytesPerToken, r.BytesReadPerToken = float64(used.MissBytes)/tokens, float64(used.BytesRead)/tokens
	if bytes, known := used.BytesNotRead(); known {
		perToken := float64(bytes) / tokens
		r.BytesNotReadPerToken = &perToken
	}
	r.MajorFaults = used.MajorFaults
	r.DroppedMassMean, r.DroppedMassP99, r.DroppedMassMax = used.Shares.Mean(), used.Shares.Quantile(0.99), used.Shares.Most
	r.DroppedExperts, r.FilledChoices, r.RescuedRows = used.DroppedExperts, used.FilledChoices, used.RescuedRows
}

// diverge fills in how far the row is from a reference.
func (r *evalRow) diverge(format string, d *evaluation.Divergence) {
	r.ReferenceFormat = &format
	for field, value := range map[**float64]float64{
		&r.ReferencePerplexity: d.Reference.Value(), &r.KLDMean: d.MeanKLD(), &r.KLDMeanError: d.MeanKLDError(), &r.KLDP999: d.QuantileKLD(0.999),
		&r.KLDMax: d.QuantileKLD(1), &r.RMSDeltaP: d.RMSDeltaP(), &r.SameTopP: d.SameTopP(),
	} {
		if !math.IsNaN(value) { // the error of a single token
			*field = &value
		}
	}
}

// agree fills in the lengths of the greedy continuations' agreement.
func (r *evalRow) agree(lengths []int, tokens int) {
	r.GreedyTokens = &tokens
	slices.Sort(lengths)
	sum := 0
	for _, n := range lengths {
		sum += n
	}
	n := len(lengths)
	mean, median := float64(sum)/float64(n), float64(lengths[(n-1)/2]+lengths[n/2])/2
	r.GreedyAgreement, r.GreedyMedian = &mean, &median
}

// loss is what a row loses in quality: its divergence, or its perplexity where nothing is compared.
func (r *evalRow) loss() float64 {
	if r.KLDMean != nil {
		return *r.KLDMean
	}
	return r.Perplexity
}

// group names the rows with which a row is compared: those of the same memory and reference.
func (r *evalRow) group() string {
	name := "no limit"
	if r.ResidentLimit != nil {
		name = bytesize.Text(*r.ResidentLimit) + " resident"
	}
	if r.ReferenceFormat != nil {
		name += ", against " + *r.ReferenceFormat
	}
	return name
}

// markFront marks the rows on the Pareto front of their group; a reference is none of the arms.
func markFront(rows []evalRow) {
	groups := map[string][]int{}
	for i := range rows {
		if rows[i].Arm != armReference {
			groups[rows[i].group()] = append(groups[rows[i].group()], i)
		}
	}
	for _, members := range groups {
		var points []evaluation.Point
		for _, i := range members {
			points = append(points, evaluation.Point{Speed: rows[i].TokensPerSecond, Loss: rows[i].loss()})
		}
		for n, on := range evaluation.Front(points) {
			rows[members[n]].Pareto = on
		}
	}
}
