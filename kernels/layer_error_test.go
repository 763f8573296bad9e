package kernels

import (
	"math"
	"testing"
)

// TestErrorOfALayer logs how far a MoE layer (8 of its experts, normally distributed weights and inputs) is from the float32
// result, and holds each format to a bound. docs/formats.md has the figures.
func TestErrorOfALayer(t *testing.T) {
	t.Parallel()
	const hidden, intermediate, experts = 512, 256, 8
	s := best()
	bounds := map[Format]float64{F32: 0, BF16: 0.005, Q8: 0.025, FP8: 0.06, Q4: 0.18}
	type method struct {
		name   string
		format Format
		round  func([]float32) // of the weights before
		bound  float64
	}
	methods := []method{{"llama.cpp's Q4_0, in float32", F32, roundQ4_0, 0.19}}
	for _, f := range Formats() {
		methods = append(methods, method{f.String(), f, func([]float32) {}, bounds[f]})
	}
	errors := map[string]float64{}
	for _, m := range methods {
		in := newInputs(t, 11, ordinary) // the same weights for each format
		x := in.floats(hidden)
		var exact, got [hidden]float64
		for range experts {
			weights := [3][]float32{in.floats(intermediate * hidden), in.floats(intermediate * hidden), in.floats(hidden * intermediate)}
			for i, y := range expertOutput(t, s, F32, weights, x) {
				exact[i] += float64(y)
			}
			for _, w := range weights {
				m.round(w)
			}
			for i, y := range expertOutput(t, s, m.format, weights, x) {
				got[i] += float64(y)
			}
		}
		var difference, size float64
		for i, y := range exact {
			difference += (got[i] - y) * (got[i] - y)
			size += y * y
		}
		relative := math.Sqrt(difference / size)
		errors[m.name] = relative
		t.Logf("%s: relative error of the layer %.4f", m.name, relative)
		if relative > m.bound {
			t.Errorf("%s: relative error %v, want at most %v", m.name, relative, m.bound)
		}
	}
	if errors["q4"] >= errors[methods[0].name] {
		t.Errorf("the error of q4 is not below that of %s", methods[0].name)
	}
}

// roundQ4_0 replaces weights by what llama.cpp's Q4_0 keeps of them (with an unrounded scale, in its favour).
func roundQ4_0(weights []float32) {
	for ; len(weights) >= 32; weights = weights[32:] {
		var largest float32
		for _, w := range weights[:32] {
			if math.Abs(float64(w)) > math.Abs(float64(largest)) {
				largest = w
			}
		}
		scale := float64(largest) / -8
		for i, w := range weights[:32] {
			weights[i] = float32((min(15, math.Floor(float64(w)/scale+8.5)) - 8) * scale)
		}
	}
}

// expertOutput is down(silu(gate x)·up x) with weights gate, up and down in a format.
func expertOutput(t *testing.T, s *Set, f Format, weights [3][]float32, x []float32) []float32 {
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
		if err := s.Prepare(a, 0, x); err != nil {
			t.Fatal(err)
		}
		y := make([]float32, outputs)
		s.Multiply(y, outputs, m, a, []int32{0}, 0, outputs)
		return y
	}
	scale := float32(1 / math.Sqrt(float64(hidden)))
	gate, up := multiply(weights[0], intermediate, x), multiply(weights[1], intermediate, x)
	s.Scale(gate, scale)
	s.Scale(up, scale)
	s.SiLUMultiply(gate, gate, up)
	return multiply(weights[2], hidden, gate)
}
