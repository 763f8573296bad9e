package budget

// shareSteps is how many steps of equal width the shares from 0 to 1 are counted in.
const shareSteps = 100

// Shares counts which shares of their mass rows have lost: one for each governed row of each layer. It is added to and subtracted as counters
// are.
type Shares struct {
	Rows uint64  // governed rows, those that lost nothing included
	Sum  float64 // of the shares
	Most float64 // the largest one
	// Steps[0] counts the rows that lost nothing, Steps[i] those that lost more than (i-1)/100 of their mass and at most i/100.
	Steps [shareSteps + 1]uint64
}

// Add counts a row that lost a share of its mass.
func (s *Shares) Add(share float64) {
	step := 0
	if share > 0 {
		step = min(int(share*shareSteps), shareSteps-1)
		if float64(step)/shareSteps < share {
			step++
		}
	}
	s.Rows++
	s.Sum += share
	s.Most = max(s.Most, share)
	s.Steps[step]++
}

// Mean is the mean share that a row lost; 0 without rows.
func (s *Shares) Mean() float64 {
	if s.Rows == 0 {
		return 0
	}
	return s.Sum / float64(s.Rows)
}

// Quantile is a share that a part q of the rows did not exceed. It is the upper end of a step, so up to 1/100 too large, but never above
// Most.
func (s *Shares) Quantile(q float64) float64 {
	need, seen := q*float64(s.Rows), uint64(0)
	for i, n := range s.Steps {
		if seen += n; n > 0 && float64(seen) >= need {
			return min(float64(i)/shareSteps, s.Most)
		}
	}
	return s.Most
}

// Below counts the rows that lost at most so many percent of their mass, by share.
func (s *Shares) Below(percent []int) map[float64]uint64 {
	counts := make(map[float64]uint64, len(percent))
	for _, p := range percent {
		n := uint64(0)
		for _, step := range s.Steps[:min(p, shareSteps)+1] {
			n += step
		}
		counts[float64(p)/shareSteps] = n
	}
	return counts
}

// Since is what was counted after before, an earlier state of the same counter. Most is exact if it has grown meanwhile, else
// the upper end of its step.
func (s Shares) Since(before *Shares) Shares {
	grown := s.Most > before.Most
	s.Rows -= before.Rows
	s.Sum -= before.Sum
	last := 0
	for i := range s.Steps {
		if s.Steps[i] -= before.Steps[i]; s.Steps[i] > 0 {
			last = i
		}
	}
	if !grown {
		s.Most = min(s.Most, float64(last)/shareSteps)
	}
	return s
}
