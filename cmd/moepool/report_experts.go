package main

import (
	"fmt"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/transport"
)

// budgetReport is what an expert budget did. Rows are rows of a layer that it governed.
type budgetReport struct {
	Policy  string `json:"policy"`
	N       int    `json:"n"` // of count=N, 0 without
	Prefill bool   `json:"prefill"`
	Rescue  bool   `json:"rescue"`

	DroppedExperts int     `json:"dropped_experts"` // of a layer, that nobody computed
	DroppedChoices int     `json:"dropped_choices"` // experts that rows lost, summed over rows
	Filled         int     `json:"filled"`          // experts that rows took in their place
	RescuedRows    int     `json:"rescued_rows"`
	Rows           uint64  `json:"rows"`
	CutRows        int     `json:"cut_rows"`          // that lost experts and did not get all of them back
	DroppedMass    float64 `json:"dropped_mass"`      // combine weight that rows lost
	MassMean       float64 `json:"dropped_mass_mean"` // share of its weight that a row lost
	MassP99        float64 `json:"dropped_mass_p99"`  // the same: the upper end of a step of 1 %
	MassMax        float64 `json:"dropped_mass_max"`
	DroppedBytes   int64   `json:"dropped_bytes"`  // of dropped experts that were not in memory: what was saved at most
	BytesNotRead   *int64  `json:"bytes_not_read"` // by the workers' ledgers; null where one keeps none
}

func newBudgetReport(u *transport.ExpertUsage) *budgetReport {
	r := &budgetReport{
		Policy: u.Budget, Prefill: u.BudgetPrefill, Rescue: u.BudgetRescue, DroppedExperts: u.DroppedExperts, DroppedChoices: u.LostChoices,
		Filled: u.FilledChoices, RescuedRows: u.RescuedRows, Rows: u.GovernedRows, CutRows: u.CutRows, DroppedMass: u.DroppedMass,
		MassMean: u.DroppedShares[0], MassP99: u.DroppedShares[1], MassMax: u.DroppedShares[2], DroppedBytes: u.DroppedBytes,
	}
	if p, err := budget.Parse(u.Budget); err == nil {
		r.N = p.Count
	}
	if u.Ledgers {
		r.BytesNotRead = &u.BytesNotRead
	}
	return r
}

// summary is the report in one line, "" for a budget that is off.
func (r *budgetReport) summary() string {
	if r == nil || r.Policy == "off" {
		return ""
	}
	text := fmt.Sprintf("[expert budget %s: %d experts dropped, %d taken instead by rows; a row lost %.1f %% of its weight on average, at most %.0f %%",
		r.Policy, r.DroppedExperts, r.Filled, 100*r.MassMean, 100*r.MassMax)
	if r.RescuedRows > 0 {
		text += fmt.Sprintf(", %d rows were rescued", r.RescuedRows)
	}
	if r.BytesNotRead == nil {
		return text + fmt.Sprintf("; at most %s not read]", bytesize.Text(r.DroppedBytes))
	}
	return text + fmt.Sprintf("; %s not read]", bytesize.Text(max(*r.BytesNotRead, 0)))
}

// expertReport is what experts cost.
type expertReport struct {
	Hits        int   `json:"hits"`
	Misses      int   `json:"misses"`
	MissBytes   int64 `json:"miss_bytes"` // packed bytes of the misses
	BytesRead   int64 `json:"bytes_read"` // that workers really read from block devices meanwhile
	MajorFaults int64 `json:"major_faults"`

	OnMissing    string  `json:"on_missing"`
	Retries      int     `json:"retries"` // shares of work that were sent again
	Hedges       int     `json:"hedges"`  // that were late, so that another worker was asked, too
	HedgeWins    int     `json:"hedge_wins"`
	Waits        int     `json:"waits"` // for experts that no worker held
	Waited       float64 `json:"waited_s"`
	DroppedParts int     `json:"dropped_parts"` // that no worker held
	MissingMass  float64 `json:"missing_mass"`  // combine weight that rows lost with them
	EmptyRows    int     `json:"empty_rows"`    // that lost all their experts
}

func newExpertReport(u *transport.ExpertUsage) *expertReport {
	return &expertReport{
		Hits: u.Hits, Misses: u.Misses, MissBytes: u.MissBytes, BytesRead: u.BytesRead, MajorFaults: u.MajorFaults, OnMissing: u.OnMissing,
		Retries: u.Retries, Hedges: u.Hedges, HedgeWins: u.HedgeWins, Waits: u.Waits, Waited: u.Waited.Seconds(), DroppedParts: u.DroppedParts,
		MissingMass: u.MissingMass, EmptyRows: u.EmptyRows,
	}
}
