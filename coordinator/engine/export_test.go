package engine

// PredictAhead makes an engine predict the experts of the n-th next layer that has some.
func (e *Engine) PredictAhead(n int) {
	p := newPredictor(e.model)
	for range n - 1 {
		for layer, next := range p.next {
			if next > 0 {
				p.next[layer] = e.predictor.next[next]
			}
		}
	}
	e.predictor = p
}
