package residency

import "slices"

// heaps have the evictable parts of each layer, the one with the lowest score first; of equal ones the highest slot, so that lower ids stay.
type heaps struct {
	parts int
	score []float64 // slot → how much it is worth to stay
	at    []int32   // slot → its position in its layer's heap, -1: not there
	heap  [][]int32 // place of a layer → slots
}

func newHeaps(layers, parts int) heaps {
	h := heaps{parts: parts, score: make([]float64, layers*parts), at: make([]int32, layers*parts), heap: make([][]int32, layers)}
	for i := range h.at {
		h.at[i] = -1
	}
	return h
}

func (h *heaps) clone() heaps {
	c := heaps{parts: h.parts, score: slices.Clone(h.score), at: slices.Clone(h.at), heap: make([][]int32, len(h.heap))}
	for i, heap := range h.heap {
		c.heap[i] = slices.Clone(heap)
	}
	return c
}

func (h *heaps) less(a, b int32) bool {
	x, y := h.score[a], h.score[b]
	return x < y || x == y && a > b
}

func (h *heaps) push(slot int32) {
	place := int(slot) / h.parts
	h.heap[place] = append(h.heap[place], slot)
	h.up(h.heap[place], len(h.heap[place])-1)
}

func (h *heaps) pull(slot int32) {
	place := int(slot) / h.parts
	heap, i := h.heap[place], int(h.at[slot])
	last := len(heap) - 1
	moved := heap[last]
	h.heap[place], h.at[slot] = heap[:last], -1
	if i == last {
		return
	}
	heap[i] = moved
	h.down(heap[:last], i)
	h.up(heap[:last], int(h.at[moved]))
}

// rescored puts a layer's heap in order after its scores have changed.
func (h *heaps) rescored(place int) {
	heap := h.heap[place]
	for i := len(heap)/2 - 1; i >= 0; i-- {
		h.down(heap, i)
	}
}

func (h *heaps) up(heap []int32, i int) {
	slot := heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(slot, heap[parent]) {
			break
		}
		heap[i] = heap[parent]
		h.at[heap[i]] = int32(i)
		i = parent
	}
	heap[i] = slot
	h.at[slot] = int32(i)
}

func (h *heaps) down(heap []int32, i int) {
	slot := heap[i]
	for {
		child := 2*i + 1
		if child >= len(heap) {
			break
		}
		if child+1 < len(heap) && h.less(heap[child+1], heap[child]) {
			child++
		}
		if !h.less(heap[child], slot) {
			break
		}
		heap[i] = heap[child]
		h.at[heap[i]] = int32(i)
		i = child
	}
	heap[i] = slot
	h.at[slot] = int32(i)
}
