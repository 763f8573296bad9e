package engine

import "github.com/moepool/moepool/coordinator/budget"

// cut applies the budget to the choices of a layer's rows.
func (e *Engine) cut(b *batch) {
	b.report = budget.Report{}
	if b.budget.Off() {
		return
	}
	b.decision = budget.Batch{
		Rows: b.choices, Phases: b.phases[:b.rows], Candidates: b.candidates, Normalize: e.config.NormalizeTopK,
		Resident: e.resident, Missing: e.missing,
	}
	b.report = b.cutter.Apply(b.budget, &b.decision)
	e.countBudget(b)
}

// isResident says whether an expert of the layer in progress is in memory, by the step's snapshot.
func (e *Engine) isResident(expert int32) bool {
	return e.batch.residency.Resident(e.batch.layer, expert)
}

// eachMissing tells of the parts of an expert of the layer in progress that are not in memory. Where workers are not known, one reads all.
func (e *Engine) eachMissing(expert int32, part func(worker int, bytes int64)) {
	workers, _ := e.batch.residency.(WorkerResidency)
	for p, bytes := range e.partBytes {
		if e.hasPart(expert, p) {
			continue
		}
		worker := 0
		if workers != nil {
			worker = workers.Reader(e.batch.layer, expert, p)
		}
		part(worker, bytes)
	}
}

// hasPart says whether a part of an expert of the layer in progress is in memory, as far as that is known of an expert that is not as a whole.
func (e *Engine) hasPart(expert int32, p int) bool {
	parts, ok := e.batch.residency.(PartResidency)
	return ok && parts.ResidentPart(e.batch.layer, expert, p)
}

// countBudget adds a layer's decision.
func (e *Engine) countBudget(b *batch) {
	var unread int64
	for _, expert := range b.report.Dropped {
		if b.residency.Resident(b.layer, expert) {
			continue // topp drops what is in memory, too
		}
		for p, bytes := range e.partBytes {
			if !e.hasPart(expert, p) {
				unread += bytes
			}
		}
	}
	e.counting.Lock()
	defer e.counting.Unlock()
	e.totals.Counts.Add(&b.report)
	e.totals.DroppedBytes += unread
}
