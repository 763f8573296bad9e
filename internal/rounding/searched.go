package rounding

import (
	"math"
	"slices"
)

// searched rounds groups of a width to scale·level: of the candidate scales for a group's weight of largest magnitude the one with the
// smallest sum of squared errors is taken, each error weighted by importance of the weight (nil: all the same).
func searched(width int, candidates func(largest float32) []float32, level func(quotient float64) float64, importance func(weight float32) float64) Rule {
	return func(row []float32) {
		eachGroup(row, width, func(group []float32) {
			largest := largestMagnitude(group)
			if largest == 0 {
				return
			}
			var best float32
			smallest := math.Inf(1)
			for _, scale := range candidates(largest) {
				cost := 0.0
				for _, w := range group {
					e := float64(w) - level(float64(w)/float64(scale))*float64(scale)
					if importance == nil {
						cost += e * e
					} else {
						cost += importance(w) * e * e
					}
				}
				if cost < smallest {
					smallest, best = cost, scale
				}
			}
			for i, w := range group {
				group[i] = float32(level(float64(w)/float64(best)) * float64(best))
			}
		})
	}
}

// Int4 is q4's rule with groups of a width: bfloat16 scales largest/-n, n = 6.5, 6.6875, ... 10.0625, codes from -8 to 7.
func Int4(width int, importance func(weight float32) float64) Rule {
	return searched(width, func(largest float32) []float32 { return scalesInt4(largest, bfloat16) }, code4, importance)
}

// Int4SmallScales has 8-bit scales of 4 exponent and 3 mantissa bits, as if over a factor of the whole row: groups of 16 so need 4.5 bits
// a weight.
func Int4SmallScales(width int) Rule {
	return searched(width, func(largest float32) []float32 { return scalesInt4(largest, threeMantissaBits) }, code4, nil)
}

func scalesInt4(largest float32, round func(float32) float32) []float32 {
	scales := make([]float32, 20)
	for k := range scales {
		scales[k] = round(largest * float32(-1/(6.5+0.1875*float64(k))))
	}
	return scales
}

// code4 is the nearest code.
func code4(quotient float64) float64 { return min(7, max(-8, math.RoundToEven(quotient))) }

// levelsNL are the levels of llama.cpp's IQ4_NL, which lie closer together near zero, as weights do.
var levelsNL = []float64{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// Table4 has IQ4_NL's table of levels instead of equal steps, in groups of a width with bfloat16 scales of either sign: groups of 32 need
// 4.5 bits a weight. Its search is its own.
func Table4(width int) Rule {
	return searched(width, func(largest float32) []float32 {
		scales := make([]float32, 0, 40)
		for k := range 20 {
			scale := bfloat16(largest / float32(100+3*k))
			scales = append(scales, scale, -scale)
		}
		return scales
	}, func(quotient float64) float64 {
		i, _ := slices.BinarySearch(levelsNL, quotient)
		if i == 0 || i < len(levelsNL) && levelsNL[i]-quotient < quotient-levelsNL[i-1] {
			return levelsNL[i]
		}
		return levelsNL[i-1]
	}, nil)
}

func threeMantissaBits(x float32) float32 {
	bits := math.Float32bits(x)
	return math.Float32frombits((bits + 0x7ffff + bits>>20&1) &^ 0xfffff)
}
