// Package rounding replaces weights by what a format keeps of them: llama.cpp's Q4_0 and Q4_K, and moepool's integer formats with other
// group widths. Tests and tables compare with it; no path of the product uses it. It must know nothing of the project.
//
// The rules were written from the formats' descriptions: docs/formats.md cites what each figure is for.
package rounding

import "math"

// Rule replaces the weights of one row.
type Rule func(row []float32)

// eachGroup calls do for consecutive groups of a row; the last may be shorter.
func eachGroup(row []float32, width int, do func(group []float32)) {
	for len(row) > 0 {
		n := min(width, len(row))
		do(row[:n])
		row = row[n:]
	}
}

// largestMagnitude is the weight of largest magnitude, the first of equals.
func largestMagnitude(group []float32) float32 {
	var largest float32
	for _, w := range group {
		if math.Abs(float64(w)) > math.Abs(float64(largest)) {
			largest = w
		}
	}
	return largest
}

// Q40 is llama.cpp's Q4_0: groups of 32 with a float16 scale (4.5 bits a weight), which is the weight of largest magnitude over -8;
// codes are floor(w/scale + 8.5), at most 15, of the scale before its rounding.
func Q40(row []float32) {
	eachGroup(row, 32, func(group []float32) {
		scale := largestMagnitude(group) / -8
		if scale == 0 {
			return
		}
		kept := float16(scale)
		for i, w := range group {
			group[i] = float32(min(15, math.Floor(float64(w/scale)+8.5))-8) * kept
		}
	})
}

// Int8 is q8's rule with groups of a width: bfloat16 scale of maxabs/127, codes rounded half to even.
func Int8(width int) Rule {
	return func(row []float32) {
		eachGroup(row, width, func(group []float32) {
			scale := bfloat16(float32(math.Abs(float64(largestMagnitude(group)))) / 127)
			for i, w := range group {
				if scale != 0 {
					group[i] = float32(min(127, max(-127, math.RoundToEven(float64(w/scale))))) * scale
				}
			}
		})
	}
}

// Activations8 is the rounding of activations to int8 in groups of a width: float32 scale maxabs/127 (DESIGN §2).
func Activations8(width int) Rule {
	return func(row []float32) {
		eachGroup(row, width, func(group []float32) {
			scale := float32(math.Abs(float64(largestMagnitude(group)))) / 127
			for i, x := range group {
				if scale != 0 {
					group[i] = float32(math.RoundToEven(float64(x/scale))) * scale
				}
			}
		})
	}
}

// bfloat16 rounds half to even.
func bfloat16(x float32) float32 {
	bits := math.Float32bits(x)
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

// float16 rounds half to even; x must be below 65520.
func float16(x float32) float32 {
	_, exponent := math.Frexp(float64(x))
	unit := math.Ldexp(1, max(exponent, -13)-11) // denormal below 2^-14
	return float32(math.RoundToEven(float64(x)/unit) * unit)
}
