package rounding

import (
	"math"
	"math/rand/v2"
	"testing"
)

// normal gives normally distributed weights in rows of 768.
func normal() [][]float32 {
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([][]float32, 100)
	for r := range rows {
		rows[r] = make([]float32, 768)
		for c := range rows[r] {
			rows[r][c] = float32(0.02 * random.NormFloat64())
		}
	}
	return rows
}

// relative is the root of squared errors over squares.
func relative(rows [][]float32, rule Rule) float64 {
	var squares, errors float64
	for _, row := range rows {
		rounded := append([]float32(nil), row...)
		rule(rounded)
		for c, w := range row {
			squares += float64(w) * float64(w)
			errors += float64(w-rounded[c]) * float64(w-rounded[c])
		}
	}
	return math.Sqrt(errors / squares)
}

// The errors of docs/formats.md. ggml's own functions (libggml-base of llama.cpp, 4000 super-blocks of normally distributed weights) gave 0.08593 for Q4_0 and
// 0.07124 for Q4_K, and there Q40 gave every, Q4K 98.9 % of their weights.
func TestErrorsOfNormalWeights(t *testing.T) {
	t.Parallel()
	rows := normal()
	for _, c := range []struct {
		name string
		rule Rule
		want float64
	}{
		{"q8, groups of 32", Int8(32), 0.0054}, {"q8, groups of 64", Int8(64), 0.0059}, {"q8, groups of 128", Int8(128), 0.0065},
		{"q4, groups of 16", Int4(16, nil), 0.0702}, {"q4, groups of 32", Int4(32, nil), 0.0811}, {"q4, groups of 64", Int4(64, nil), 0.0898},
		{"q4, groups of 128", Int4(128, nil), 0.0964}, {"q4, groups of 16, 8-bit scales", Int4SmallScales(16), 0.0728},
		{"Q4_0", Q40, 0.0859}, {"Q4_K", Q4K, 0.0712}, {"IQ4_NL's table, groups of 32", Table4(32), 0.0735},
	} {
		got := relative(rows, c.rule)
		t.Logf("%s: %.4f", c.name, got)
		if math.Abs(got-c.want) > 0.01*c.want {
			t.Errorf("%s: relative error %.5f, want %.4f", c.name, got, c.want)
		}
	}
}

// Weights that a rule can hold stay.
func TestExactWeights(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]Rule{"q8": Int8(64), "q4": Int4(32, nil), "Q4_0": Q40, "small scales": Int4SmallScales(16)} {
		row := make([]float32, 96)
		for c := range row {
			row[c] = float32(c%16-8) / 8
		}
		if name == "q8" {
			for c := range row {
				row[c] = float32(c%64*4 - 127)
			}
		}
		if e := relative([][]float32{row}, rule); e != 0 {
			t.Errorf("%s: error %v of weights that it holds", name, e)
		}
	}
	affine := make([]float32, 256)
	for c := range affine {
		affine[c] = float32(c%16)/16*0.75 - 0.5
	}
	if e := relative([][]float32{affine}, Q4K); e > 1e-3 {
		t.Errorf("Q4_K: error %v of sixteen equal steps", e)
	}
	for name, rule := range map[string]Rule{"q8": Int8(64), "q4": Int4(32, nil), "Q4_0": Q40, "Q4_K": Q4K, "table": Table4(32)} {
		zeros := make([]float32, 300)
		rule(zeros)
		for _, w := range zeros {
			if w != 0 {
				t.Fatalf("%s makes %v of a zero", name, w)
			}
		}
	}
}

func TestFloat16(t *testing.T) {
	t.Parallel()
	for x, want := range map[float32]float32{
		1: 1, 1 + 0x1p-11: 1, 1 + 0x3p-11: 1 + 0x2p-10, -1 - 0x1.8p-10: -1 - 0x2p-10, 0x1p-24: 0x1p-24, 0x1p-25: 0, 0x3p-25: 0x1p-23, 0: 0, 65504: 65504,
	} {
		if got := float16(x); got != want {
			t.Errorf("float16(%v) = %v, want %v", x, got, want)
		}
	}
}
