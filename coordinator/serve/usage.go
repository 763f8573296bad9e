package serve

import (
	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/transport"
)

// Usage says what an answer cost in experts, and what its budget did: used is what was counted meanwhile.
func Usage(c *coordinator.Coordinator, policy budget.Policy, used *engine.Totals) *transport.ExpertUsage {
	shares := &used.Shares
	u := &transport.ExpertUsage{
		Budget: policy.String(), BudgetPrefill: policy.Prefill, BudgetRescue: policy.Rescue,
		DroppedExperts: used.DroppedExperts, LostChoices: used.LostChoices, FilledChoices: used.FilledChoices, CutRows: used.CutRows,
		RescuedRows: used.RescuedRows, DroppedMass: used.DroppedMass, GovernedRows: shares.Rows,
		DroppedShares: [3]float64{shares.Mean(), shares.Quantile(0.99), shares.Most}, DroppedBytes: used.DroppedBytes,
		Hits: used.Hits, Misses: used.Misses, MissBytes: used.MissBytes, BytesRead: used.BytesRead, MajorFaults: used.MajorFaults,
		OnMissing: c.OnMissing().String(), Retries: used.Retries, Hedges: used.Hedges, HedgeWins: used.HedgeWins, Waits: used.Waits,
		Waited: used.Waited, DroppedParts: used.DroppedParts, MissingMass: used.MissingMass, EmptyRows: used.EmptyRows,
	}
	u.BytesNotRead, u.Ledgers = used.BytesNotRead()
	return u
}
