package kernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/moepool/moepool/internal/rounding"
)

// TestErrorOfALayer logs how far a MoE layer (8 of its experts, normally distributed weights and inputs) is from the float32
// result, and holds each format to a bound. The integer formats with other groups, and llama.cpp's, are computed in float32 with rounded
// weights and, for ours, rounded activations. docs/formats.md has the figures.
func TestErrorOfALayer(t *testing.T) {
	t.Parallel()
	s := best()
	bounds := map[Format]float64{F32: 0, BF16: 0.005, Q8: 0.025, FP8: 0.06, Q4: 0.15, MXFP4: 0.22}
	nothing := func([]float32) {}
	exact := layerOutput(t, s, F32, nothing, nothing)
	errors := map[string]float64{}
	measure := func(name string, f Format, weights, activations rounding.Rule) {
		errors[name] = relativeError(layerOutput(t, s, f, weights, activations), exact)
		t.Logf("%s: relative error of the layer %.4f", name, errors[name])
	}
	for _, f := range Formats() {
		measure(f.String(), f, nothing, nothing)
		if bound, ok := bounds[f]; ok && errors[f.String()] > bound {
			t.Errorf("%v: relative error %v, want at most %v", f, errors[f.String()], bound)
		}
	}
	if testing.Short() {
		return // the race detector makes rounding slow
	}
	for _, width := range []int{32, 64, 128} {
		measure(fmt.Sprintf("q8, groups of %d", width), F32, rounding.Int8(width), rounding.Activations8(width))
		measure(fmt.Sprintf("q4, groups of %d", width), F32, rounding.Int4(width, nil), rounding.Activations8(max(width, GroupColumns)))
	}
	measure("Q4_0, exact activations", F32, rounding.Q40, nothing)
	measure("Q4_K, exact activations", F32, rounding.Q4K, nothing)
	measure("q4, exact activations", F32, rounding.Int4(Q4GroupColumns, nil), nothing)

	// The rounding in float32 is what the formats do.
	for _, c := range [][2]string{{"q8", fmt.Sprintf("q8, groups of %d", GroupColumns)}, {"q4", fmt.Sprintf("q4, groups of %d", Q4GroupColumns)}} {
		if ours, rule := errors[c[0]], errors[c[1]]; math.Abs(ours-rule) > 0.01*ours {
			t.Errorf("the error of %s is %v, of the same rule in float32 %v", c[0], ours, rule)
		}
	}
	if errors["q4"] >= errors["Q4_0, exact activations"] {
		t.Error("the error of q4 is not below that of llama.cpp's Q4_0")
	}
}

// layerOutput is the sum of a layer's experts, whose weights and activations go through rules first.
func layerOutput(t *testing.T, s *Set, f Format, roundWeights, roundActivations rounding.Rule) []float64 {
	t.Helper()
	const hidden, intermediate, experts = 512, 256, 8
	in := newInputs(t, 11, ordinary) // the same weights for each format
	x := in.floats(hidden)
	sum := make([]float64, hidden)
	for range experts {
		weights := [3][]float32{in.floats(intermediate * hidden), in.floats(intermediate * hidden), in.floats(hidden * intermediate)}
		for _, w := range weights {
			roundWeights(w) // groups don't cross rows: all widths divide them
		}
		for i, y := range expertOutput(t, s, f, weights, x, roundActivations) {
			sum[i] += float64(y)
		}
	}
	return sum
}

// relativeError is the root of squared differences over squares.
func relativeError(got, exact []float64) float64 {
	var difference, size float64
	for i, y := range exact {
		difference += (got[i] - y) * (got[i] - y)
		size += y * y
	}
	return math.Sqrt(difference / size)
}

// expertOutput is down(silu(gate x)·up x) with weights gate, up and down in a format; round is applied to activations before products.
func expertOutput(t *testing.T, s *Set, f Format, weights [3][]float32, x []float32, round rounding.Rule) []float32 {
	t.Helper()
	hidden := len(x)
	intermediate := len(weights[0]) / hidden
	multiply := func(weights []float32, outputs int, x []float32) []float32 {
		columns := len(x)
		m := Matrix{f, outputs, columns, make([]byte, MatrixBytes(f, outputs, columns))}
		if err := Pack(m, func(o int, dst []float32) { copy(dst, weights[o*columns:]) }); err != nil {
			t.Fatal(err)
		}
		a := &Activations{}
		a.Reset(f.Quantized(), 1, columns)
		rounded := slices.Clone(x)
		round(rounded)
		if err := s.Prepare(a, 0, rounded); err != nil {
			t.Fatal(err)
		}
		y := make([]float32, outputs)
		s.Multiply(y, outputs, m, a, []int32{0}, 0, outputs)
		return y
	}
	scale := float32(1 / math.Sqrt(float64(hidden)))
	gate, up := multiply(weights[0], intermediate, x), multiply(weights[1], intermediate, x)
	for i := range gate {
		gate[i] *= scale
		up[i] *= scale
	}
	s.SiLUMultiply(gate, gate, up)
	return multiply(weights[2], hidden, gate)
}
