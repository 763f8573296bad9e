// Package router chooses the experts of each row: softmax over the router's scores, the top-k by probability (ties: lower id,
// NaN last), and their combine weights. Pure. It must not know of batches, budgets or who computes an expert.
package router

import "github.com/moepool/moepool/kernels"

// Choice is what one row wants: experts ascending by id, with the weights that multiply their outputs.
type Choice struct {
	Experts []int32
	Weights []float32
}

// TopK turns router scores [experts] (overwritten by their probabilities) into the choice of the k most probable experts; fewer if
// there are fewer experts. A tie is won by the lower id, and NaN loses against every number. The softmax is that of set, in float32,
// the same bits for every set. With normalize the weights are divided by their sum, which is added in ascending order of ids; a sum
// that is not a positive number leaves them as they are. divisor is what the probabilities were divided by, 1 if they were not. dst's slices
// are reused.
func TopK(set *kernels.Set, dst *Choice, scores []float32, k int, normalize bool) (divisor float32) {
	set.Softmax(scores)
	Largest(dst, scores, k)
	if normalize {
		return normalizeWeights(dst.Weights)
	}
	return 1
}

// Candidates lists the m most probable experts, best first by the order of TopK, with the weights that they would have beside a choice whose
// divisor TopK gave: for those of the choice their own. dst's slices are reused.
func Candidates(dst *Choice, probabilities []float32, m int, divisor float32) {
	best(dst, probabilities, m)
	for i := range dst.Weights {
		dst.Weights[i] /= divisor
	}
}

// Largest chooses the k largest of the probabilities [experts] by the order of TopK; the weights are the probabilities.
func Largest(dst *Choice, probabilities []float32, k int) {
	best(dst, probabilities, k)
	dst.SortByID()
}

// best lists the k largest, best first.
func best(dst *Choice, probabilities []float32, k int) {
	k = max(0, min(k, len(probabilities)))
	experts, weights := dst.Experts[:0], dst.Weights[:0]
	// Ids come in ascending order, and a later one moves ahead only of those that are strictly less probable: so ties keep the
	// lower id first.
	for id, p := range probabilities {
		if len(experts) == k {
			if k == 0 || !precedes(p, weights[k-1]) {
				continue
			}
			experts, weights = experts[:k-1], weights[:k-1]
		}
		at := len(experts)
		for at > 0 && precedes(p, weights[at-1]) {
			at--
		}
		experts, weights = append(experts, 0), append(weights, 0)
		copy(experts[at+1:], experts[at:])
		copy(weights[at+1:], weights[at:])
		experts[at], weights[at] = int32(id), p
	}
	dst.Experts, dst.Weights = experts, weights
}

// precedes says whether probability a is strictly better than b, NaN being the worst.
func precedes(a, b float32) bool {
	if b != b {
		return a == a
	}
	return a > b
}

// SortByID orders a choice by ascending ids. It is an insertion sort: k is small and nothing is allocated.
func (c *Choice) SortByID() {
	experts, weights := c.Experts, c.Weights
	for i := 1; i < len(experts); i++ {
		for j := i; j > 0 && experts[j] < experts[j-1]; j-- {
			experts[j], experts[j-1] = experts[j-1], experts[j]
			weights[j], weights[j-1] = weights[j-1], weights[j]
		}
	}
}

// normalizeWeights divides weights by their sum, which it gives.
func normalizeWeights(weights []float32) (divisor float32) {
	var sum float32
	for _, w := range weights {
		sum += w
	}
	if !(sum > 0) {
		return 1
	}
	for i, w := range weights {
		weights[i] = w / sum
	}
	return sum
}
