package sampling

import "sync"

// candidates are tokens as a heap, the best on top: of a vocabulary of 150 000, few are ever taken.
type candidates struct {
	heap []candidate
}

type candidate struct {
	logit float32
	id    int32
}

func (c candidate) before(o candidate) bool {
	return c.logit > o.logit || c.logit == o.logit && c.id < o.id
}

var pool = sync.Pool{New: func() any { return new(candidates) }}

// newCandidates takes every logit that is a number. Give it back with release.
func newCandidates(logits []float32) *candidates {
	c := pool.Get().(*candidates)
	c.heap = c.heap[:0]
	for i, x := range logits {
		if x == x {
			c.heap = append(c.heap, candidate{x, int32(i)})
		}
	}
	for i := len(c.heap)/2 - 1; i >= 0; i-- {
		c.down(i)
	}
	return c
}

func (c *candidates) release() { pool.Put(c) }

// Len is the number of candidates that were not taken.
func (c *candidates) Len() int { return len(c.heap) }

func (c *candidates) peek() candidate { return c.heap[0] }

func (c *candidates) pop() candidate {
	top := c.heap[0]
	n := len(c.heap) - 1
	c.heap[0] = c.heap[n]
	c.heap = c.heap[:n]
	c.down(0)
	return top
}

func (c *candidates) down(i int) {
	h := c.heap
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

// total is the sum of the weights of all candidates, in the order of the heap, which depends on the logits alone.
func (c *candidates) total(weight func(float32) float32) float64 {
	sum := 0.0
	for _, x := range c.heap {
		sum += float64(weight(x.logit))
	}
	return sum
}
