package budget

// Counts are counters of decisions.
type Counts struct {
	DroppedExperts int // experts of a layer that rows wanted and nobody computed
	LostChoices    int // experts that rows lost, summed over rows
	FilledChoices  int // experts that rows took in their place
	CutRows        int // rows of a layer that lost experts and have not got all of them back
	RescuedRows    int
	DroppedMass    float64 // combine weight that rows lost, before any rescaling
	Shares         Shares  // of their mass that rows lost
}

// Add counts a decision.
func (c *Counts) Add(r *Report) {
	c.DroppedExperts += r.DroppedExperts
	c.LostChoices += r.LostChoices
	c.FilledChoices += r.FilledChoices
	c.CutRows += r.CutRows
	c.RescuedRows += r.RescuedRows
	c.DroppedMass += r.DroppedMass
	for _, share := range r.Shares {
		c.Shares.Add(share)
	}
}

// Since is what was counted after before, an earlier state of the same counters.
func (c Counts) Since(before *Counts) Counts {
	c.DroppedExperts -= before.DroppedExperts
	c.LostChoices -= before.LostChoices
	c.FilledChoices -= before.FilledChoices
	c.CutRows -= before.CutRows
	c.RescuedRows -= before.RescuedRows
	c.DroppedMass -= before.DroppedMass
	c.Shares = c.Shares.Since(&before.Shares)
	return c
}
