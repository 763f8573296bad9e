package transport

// fields is a list of a message, which names it in errors; parts ascend.
func (m *LayerParts) fields(w *wire, name string) {
	m.anyOrder(w, name)
	if w.err != nil {
		return
	}
	for i, p := range m.Parts {
		if i > 0 && m.Parts[i-1] >= p {
			w.fail(name, "layer %d: %d at %d; they must ascend", m.Layer, p, i)
			return
		}
	}
}

// anyOrder is a list whose order means something else.
func (m *LayerParts) anyOrder(w *wire, name string) {
	w.array(name, 2)
	w.int(&m.Layer, name, 0, MaxLayers)
	list(w, &m.Parts, name, MaxLayerParts)
	if w.err != nil {
		return
	}
	for i, p := range m.Parts {
		if p >= MaxLayerParts {
			w.fail(name, "layer %d: %d at %d; they must be below %d", m.Layer, p, i, MaxLayerParts)
			return
		}
	}
}

// layerLists are up to MaxLayers lists in any order. Memory of *v is reused.
func layerLists(w *wire, v *[]LayerParts, name string) {
	n := len(*v)
	w.count(&n, name, 4, MaxLayers)
	if w.err != nil {
		return
	}
	if w.reading {
		*v = resize(*v, n)
	}
	for i := range *v {
		(*v)[i].fields(w, name)
	}
}

// checkAscending checks expert parts of one layer.
func checkAscending(w *wire, parts []uint32, name string) {
	for i, p := range parts {
		if p >= MaxLayerParts || i > 0 && parts[i-1] >= p {
			w.fail(name, "%d at %d; they must ascend below %d", p, i, MaxLayerParts)
			return
		}
	}
}
