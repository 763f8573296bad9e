// Package sampling chooses the next token from logits. Pure: the choice is a function of the parameters, the seed, the position and
// the logits, in the same bits on every machine, so that a generation can be continued elsewhere.
//
// The order is: temperature, then top-k, then top-p, then min-p, each on what the one before left over, sorted by descending logit
// (ties: the lower id first); then one draw.
//
//   - temperature T: weight = exp((logit - largest logit) / T), so the best token has weight 1.
//   - top-k: the first k stay.
//   - top-p: the shortest beginning whose weights sum to at least p of the total stays; never less than one token.
//   - min-p: tokens of at least p times the best token's probability stay.
//
// A logit that is NaN is never chosen, unless all are (then it is id 0). -Inf has weight 0; +Inf is infinitely better than any
// finite logit.
//
// It must not know of models, text or requests.
package sampling

import (
	"fmt"
	"math"
	"slices"

	"github.com/moepool/moepool/kernels"
)

// Params are the usual sampling parameters; the zero value is greedy.
type Params struct {
	Temperature float32 // 0 is greedy
	TopK        int     // 0 is off
	TopP        float32 // 0 or 1 is off
	MinP        float32 // 0 is off
	Seed        uint64
}

// Validate says which parameter is out of range and what is valid.
func (p Params) Validate() error {
	switch {
	case !(p.Temperature >= 0) || math.IsInf(float64(p.Temperature), 1):
		return fmt.Errorf("temperature %v is out of range: it must be a finite number of at least 0 (0 is greedy)", p.Temperature)
	case p.TopK < 0:
		return fmt.Errorf("top-k %d is out of range: it must be at least 0 (0 is off)", p.TopK)
	case !(p.TopP >= 0 && p.TopP <= 1):
		return fmt.Errorf("top-p %v is out of range: it must be between 0 and 1 (0 and 1 are off)", p.TopP)
	case !(p.MinP >= 0 && p.MinP <= 1):
		return fmt.Errorf("min-p %v is out of range: it must be between 0 and 1 (0 is off)", p.MinP)
	}
	return nil
}

// Sample chooses a token for the given absolute position; logits are not changed. Ties: the lower id wins; NaN sorts last.
// Parameters must be valid (see Validate); of no logits at all, and of NaNs only, the choice is 0.
func (p Params) Sample(logits []float32, position int) int32 {
	if p.Temperature == 0 {
		return best(logits)
	}
	c := newCandidates(logits)
	defer c.release()
	if c.Len() == 0 {
		return 0
	}
	weight := p.weights(c.peek().logit)
	u := uniform(p.Seed, position)
	if p.MinP == 0 && (p.TopP == 0 || p.TopP == 1) && (p.TopK == 0 || p.TopK >= c.Len()) {
		return drawLazily(c, weight, u)
	}
	kept, total := p.truncate(c, weight)
	return draw(kept, total, u)
}

// best is the greedy choice.
func best(logits []float32) int32 {
	found, most := -1, float32(math.Inf(-1))
	for i, x := range logits {
		if x > most {
			found, most = i, x
		}
	}
	if found < 0 { // nothing but -Inf and NaN
		found = max(0, slices.Index(logits, most))
	}
	return int32(found)
}

// weights gives the function from a logit to its weight, relative to the largest logit.
func (p Params) weights(largest float32) func(logit float32) float32 {
	return func(logit float32) float32 {
		if logit == largest { // also of infinities, whose difference is NaN
			return 1
		}
		return kernels.Exp((logit - largest) / p.Temperature)
	}
}

// truncate takes what top-k, top-p and min-p leave over out of c; total is the sum of their weights.
func (p Params) truncate(c *candidates, weight func(float32) float32) (kept []weighted, total float64) {
	limit := c.Len()
	if p.TopK > 0 && p.TopK < limit {
		limit = p.TopK
	}
	enough := math.Inf(1) // the sum at which top-p stops
	if p.TopP > 0 && p.TopP < 1 {
		if limit < c.Len() {
			// The total of the k best: take them out first.
			for range limit {
				x := c.pop()
				w := weight(x.logit)
				kept, total = append(kept, weighted{x.id, w}), total+float64(w)
			}
			return p.cut(kept, float64(p.TopP)*total)
		}
		enough = float64(p.TopP) * c.total(weight)
	}
	for len(kept) < limit && total < enough {
		x := c.peek()
		w := weight(x.logit)
		if w < p.MinP {
			break
		}
		c.pop()
		kept, total = append(kept, weighted{x.id, w}), total+float64(w)
	}
	return kept, total
}

// cut is top-p and min-p of sorted tokens; enough is the sum at which top-p stops.
func (p Params) cut(sorted []weighted, enough float64) (kept []weighted, total float64) {
	for i, x := range sorted {
		if total >= enough || x.weight < p.MinP {
			return sorted[:i], total
		}
		total += float64(x.weight)
	}
	return sorted, total
}

// weighted is a token with its weight; the best token's is 1.
type weighted struct {
	id     int32
	weight float32
}

// draw takes the token in whose share of the total u falls, in [0, 1).
func draw(kept []weighted, total float64, u float64) int32 {
	target := u * total
	sum := 0.0
	chosen := kept[0].id
	for _, x := range kept {
		if x.weight > 0 {
			chosen = x.id // rounding may leave the sum just below the target: then the last one with a weight
		}
		if sum += float64(x.weight); sum > target {
			break
		}
	}
	return chosen
}

// drawLazily is draw of all candidates, without sorting those that are not reached.
func drawLazily(c *candidates, weight func(float32) float32, u float64) int32 {
	target := u * c.total(weight)
	sum := 0.0
	chosen := c.peek().id
	for c.Len() > 0 {
		x := c.pop()
		w := weight(x.logit)
		if w == 0 {
			break // so are all that follow
		}
		chosen = x.id
		if sum += float64(w); sum > target {
			break
		}
	}
	return chosen
}
