package kernels

// Exp is e^x by the polynomial that all kernels share.
func Exp(x float32) float32 { panic("skeleton") }

// FMA is x·y+z in float32 with one rounding, the same on every target.
func FMA(x, y, z float32) float32 { panic("skeleton") }

// Sigmoid is 1/(1+Exp(-x)).
func Sigmoid(x float32) float32 { panic("skeleton") }

// InverseFrequencies gives theta^(-2i/dim) for i in [0, dim/2), each rounded to float32 once.
func InverseFrequencies(theta float64, dim int) []float32 { panic("skeleton") }

// RopeTable stores cos and sin of float32(position)·frequency (a float32 product) for each frequency.
func RopeTable(cos, sin []float32, position int, frequencies []float32) { panic("skeleton") }
