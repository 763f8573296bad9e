package tokenizer

import "sync"

// word is a piece on its way through the merges: a doubly linked list of symbols in an array.
type word struct {
	symbols []symbol
	heap    []candidate
}

type symbol struct {
	id         int32
	prev, next int32 // indexes of the neighbours; -1 at the ends
	dead       bool  // merged into the symbol before it
}

// candidate is a pair that can be merged, as it was when it entered the heap.
type candidate struct {
	rank int32
	at   int32 // index of the left symbol
	id   int32 // of the result
}

func (c candidate) before(o candidate) bool {
	return c.rank < o.rank || c.rank == o.rank && c.at < o.at
}

var wordPool = sync.Pool{New: func() any { return new(word) }}

func (w *word) add(id int32) {
	n := int32(len(w.symbols))
	if n > 0 {
		w.symbols[n-1].next = n
	}
	w.symbols = append(w.symbols, symbol{id: id, prev: n - 1, next: -1})
}

// mergeAll merges until no pair of neighbours has a merge; O(n log n).
func (w *word) mergeAll(merges map[pair]merge) {
	w.heap = w.heap[:0]
	for i := 1; i < len(w.symbols); i++ {
		if m, ok := merges[pair{w.symbols[i-1].id, w.symbols[i].id}]; ok {
			w.heap = append(w.heap, candidate{m.rank, int32(i - 1), m.id})
		}
	}
	for i := len(w.heap)/2 - 1; i >= 0; i-- {
		w.down(i)
	}
	for len(w.heap) > 0 {
		c := w.pop()
		left := &w.symbols[c.at]
		if left.dead || left.next < 0 {
			continue
		}
		right := &w.symbols[left.next]
		// The neighbours may have changed since the candidate was seen.
		if m, ok := merges[pair{left.id, right.id}]; !ok || m.id != c.id {
			continue
		}
		left.id, left.next = c.id, right.next
		right.dead = true
		if left.next >= 0 {
			w.symbols[left.next].prev = c.at
			w.see(merges, c.at, left.next)
		}
		if left.prev >= 0 {
			w.see(merges, left.prev, c.at)
		}
	}
}

// see puts a new pair of neighbours into the heap if it can be merged.
func (w *word) see(merges map[pair]merge, left, right int32) {
	if m, ok := merges[pair{w.symbols[left].id, w.symbols[right].id}]; ok {
		w.heap = append(w.heap, candidate{m.rank, left, m.id})
		w.up(len(w.heap) - 1)
	}
}

func (w *word) pop() candidate {
	top := w.heap[0]
	n := len(w.heap) - 1
	w.heap[0] = w.heap[n]
	w.heap = w.heap[:n]
	w.down(0)
	return top
}

func (w *word) up(i int) {
	h := w.heap
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (w *word) down(i int) {
	h := w.heap
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
