package engine

import "github.com/moepool/moepool/coordinator/budget"

// cut applies the budget to the choices of a layer's rows.
func (e *Engine) cut(b *batch) {
	b.report = budget.Report{}
	if b.budget.Off() {
		return
	}
	decision := budget.Batch{
		Rows: b.choices, Phases: b.phases[:b.rows], Candidates: b.candidates, Normalize: e.config.NormalizeTopK,
		Resident: e.resident, Missing: e.missing,
	}
	b.report = b.cutter.Apply(b.budget, &decision)
	e.countBudget(b)
}

// isResident says whether an expert of the layer in progress is in memory, by the step's snapshot.
func (e *Engine) isResident(expert int32) bool {
	return e.batch.residency.Resident(e.batch.layer, expert)
}

// eachMissing tells of the parts of an expert of the layer in progress that are not in memory. Where workers are not known, one reads all.
func (e *Engine) eachMissing(expert int32, part func(worker int, bytes int64)) {
	layer := e.batch.layer
	parts, _ := e.batch.residency.(PartResidency)
	workers, _ := e.batch.residency.(WorkerResidency)
	for p, bytes := range e.partBytes {
		if parts != nil && parts.ResidentPart(layer, expert, p) {
			continue
		}
		worker := 0
		if workers != nil {
			worker = workers.Reader(layer, expert, p)
		}
		part(worker, bytes)
	}
}

// countBudget adds a layer's decision.
func (e *Engine) countBudget(b *batch) {
	var unread int64
	if b.residency != nil {
		for _, expert := range b.report.Dropped {
			e.eachMissing(expert, func(_ int, bytes int64) { unread += bytes })
		}
	}
	e.counting.Lock()
	defer e.counting.Unlock()
	e.totals.Counts.Add(&b.report)
	e.totals.DroppedBytes += unread
}
