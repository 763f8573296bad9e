package membership

// Changed is closed at the next change of the plan, or of what Lost says of a worker. Take it before asking for either.
func (m *Members) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Uncovered notes that work waits for expert parts of a layer that no usable worker holds.
func (m *Members) Uncovered(layer int, parts []uint32) {
	m.o.Log("layer %d: work waits for %d expert parts that no worker holds", layer, len(parts))
}
