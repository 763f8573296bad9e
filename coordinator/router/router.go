// Package router chooses the experts of each row: softmax over the router's scores, the top-k by probability (ties: lower id,
// NaN last), and their combine weights. Pure.
package router

// Choice is what one row wants: experts ascending by id, with the weights that multiply their outputs.
type Choice struct {
	Experts []int32
	Weights []float32
}

// TopK turns router scores [experts] (overwritten by probabilities) into a choice; normalize divides the weights by their sum.
// dst's slices are reused.
func TopK(dst *Choice, scores []float32, k int, normalize bool) { panic("skeleton") }
