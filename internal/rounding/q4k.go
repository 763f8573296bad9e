package rounding

import "math"

const (
	superWidth = 256 // weights that share two float16 factors
	subWidth   = 32  // weights that share a scale and a minimum of 6 bits each
	levels     = 15  // codes are 0 to 15
	factors    = 63  // of 6 bits
)

// Q4K is llama.cpp's Q4_K (4.5 bits a weight): super-blocks of 256 weights are 8 sub-blocks of 32; a weight is d·s·code - m·t, where
// s and t are the sub-block's 6-bit scale and minimum, d and m the super-block's float16 factors of them and codes have 4 bits.
// Each sub-block's scale and minimum are searched with weights of importance (below); the largest of eight gets factor 63.
//
// llama.cpp stores rows that don't divide by 256 in another format; here their last super-block is short.
func Q4K(row []float32) { eachGroup(row, superWidth, superBlock) }

func superBlock(block []float32) {
	var scales, minima []float64
	eachGroup(block, subWidth, func(sub []float32) {
		scale, minimum := searchAffine(sub)
		scales, minima = append(scales, scale), append(minima, minimum)
	})
	scaleFactors, d := sixBits(scales)
	minimumFactors, m := sixBits(minima)
	index := 0
	eachGroup(block, subWidth, func(sub []float32) {
		scale, minimum := d*scaleFactors[index], m*minimumFactors[index]
		index++
		for i, w := range sub {
			code := 0.0
			if scale != 0 {
				code = clampCode((float64(w) + minimum) / scale)
			}
			sub[i] = float32(code*scale - minimum)
		}
	})
}

// sixBits are the factors 0 to 63 of values that are not negative, and the float16 that they multiply.
func sixBits(values []float64) (codes []float64, unit float64) {
	largest := 0.0
	for _, v := range values {
		largest = max(largest, v)
	}
	codes = make([]float64, len(values))
	if largest == 0 {
		return codes, 0
	}
	for i, v := range values {
		codes[i] = min(factors, math.RoundToEven(v*factors/largest))
	}
	return codes, float64(float16(float32(largest / factors)))
}

func clampCode(x float64) float64 { return min(levels, max(0, math.RoundToEven(x))) }

// searchAffine finds scale and minimum (w ≈ scale·code - minimum, minimum >= 0) of a sub-block. Codes are tried for the range from
// the lowest weight (or 0) to the highest, divided in 15 steps and then in 14, 14.1, ... 16; for the codes of each, scale and minimum
// are those of least weighted squares, and the pair with the least error is kept. Once a pair is kept, the ranges begin at its minimum. A
// weight's importance is |w| plus the sub-block's root mean square.
func searchAffine(sub []float32) (scale, minimum float64) {
	lowest, highest, squares := 0.0, math.Inf(-1), 0.0
	for _, w := range sub {
		lowest, highest = min(lowest, float64(w)), max(highest, float64(w))
		squares += float64(w) * float64(w)
	}
	if lowest == highest || highest == math.Inf(-1) {
		return 0, -lowest
	}
	importance := make([]float64, len(sub))
	for i, w := range sub {
		importance[i] = math.Abs(float64(w)) + math.Sqrt(squares/float64(len(sub)))
	}
	codes := make([]float64, len(sub))
	smallest := math.Inf(1)
	try := func(steps float64, fit bool) {
		for i, w := range sub {
			codes[i] = clampCode(steps / (highest - lowest) * (float64(w) - lowest))
		}
		s, low := (highest-lowest)/steps, lowest
		if fit {
			var ok bool
			if s, low, ok = leastSquares(sub, importance, codes); !ok {
				return
			}
		}
		cost := 0.0
		for i, w := range sub {
			e := s*codes[i] + low - float64(w)
			cost += importance[i] * e * e
		}
		if cost < smallest {
			smallest, scale, lowest = cost, s, low // the next ranges start at the new minimum
		}
	}
	try(levels, false)
	for k := range 21 {
		try(levels-1+0.1*float64(k), true)
	}
	return scale, -lowest
}

// leastSquares gives scale and low <= 0 for which scale·code + low is nearest to the weights; not ok if all codes are equal.
func leastSquares(weights []float32, importance, codes []float64) (scale, low float64, ok bool) {
	var sum, sumCode, sumCode2, sumWeight, sumBoth float64
	for i, w := range weights {
		sum += importance[i]
		sumCode += importance[i] * codes[i]
		sumCode2 += importance[i] * codes[i] * codes[i]
		sumWeight += importance[i] * float64(w)
		sumBoth += importance[i] * codes[i] * float64(w)
	}
	determinant := sum*sumCode2 - sumCode*sumCode
	if determinant <= 0 {
		return 0, 0, false
	}
	scale = (sum*sumBoth - sumCode*sumWeight) / determinant
	low = (sumCode2*sumWeight - sumCode*sumBoth) / determinant
	if low > 0 {
		return sumBoth / sumCode2, 0, true
	}
	return scale, low, true
}
