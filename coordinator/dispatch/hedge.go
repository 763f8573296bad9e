package dispatch

// hedge asks others for what has taken too long.
func (j *job) hedge() {
	ranked := false
	for i := 0; i < len(j.attempts); i++ {
		a := j.attempts[i]
		if a.state != waiting || a.suspect || a.hedgeAfter == 0 || a.age < a.hedgeAfter {
			continue
		}
		if !ranked {
			j.rankAll()
			ranked = true
		}
		if !j.takesAll(a, good, a.worker) {
			a.hedgeAfter = 2 * a.age // others may be good by then
			continue
		}
		a.hedgeAfter = 0
		j.toBest(j.call, a, good, a.worker)
		for _, h := range j.made {
			h.rival, h.number = a, a.number
			a.hedges = append(a.hedges, h)
			j.dispatch(h)
		}
		j.stats.Hedges++
	}
}

// hedged takes an answer of a hedge. It counts when all of the hedge is there, instead of the attempt that is hedged.
func (j *job) hedged(a *attempt) {
	a.state = held
	first := a.rival
	for _, h := range first.hedges {
		if h.state != held {
			return
		}
	}
	for _, h := range first.hedges {
		j.count(h)
	}
	j.stats.HedgeWins++
	j.want(actLate, first)
	j.forget(first)
	j.open--
	j.finish()
}

// dropHedges gives up what hedges an attempt.
func (j *job) dropHedges(a *attempt) {
	for _, h := range a.hedges {
		j.forget(h)
	}
	a.hedges, a.hedgeAfter = a.hedges[:0], 0
}

// promote makes what hedges an attempt the only thing that is waited for.
func (j *job) promote(a *attempt) {
	for _, h := range a.hedges {
		h.rival = nil
		if h.state == held {
			j.count(h)
		} else {
			j.open++
		}
	}
	a.hedges = a.hedges[:0]
	j.open--
}
