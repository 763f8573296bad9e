package worker

// leave makes the worker drain: its beats say so, it loads no more, and serves what it has.
func (p *process) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = true
	if p.loading != nil {
		p.loading.cancel()
	}
}

// depart ends all but the work that has arrived.
func (p *process) depart() {
	p.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
}

// free says why a worker that drains is not needed any more; "" if it is, or does not drain.
func (p *process) free() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.leaving:
		return ""
	case p.epochs.assigned == nil:
		return "it works for no coordinator"
	case p.epochs.spare():
		return "the active placement has no experts on it"
	}
	for _, h := range p.epochs.held {
		if !h.former && h.shards.Plan().Count > 0 {
			return ""
		}
	}
	return "it owns no experts"
}
