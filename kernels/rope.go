package kernels

// InverseFrequencies gives theta^(-2i/dim) for i in [0, dim/2), rounded as Hugging Face's float32 code rounds it: the power
// theta^(2i/dim) to float32, then its reciprocal.
func InverseFrequencies(theta float64, dim int) []float32 {
	frequencies := make([]float32, dim/2)
	logTheta := logDouble(theta)
	for i := range frequencies {
		exponent := float32(2*i) / float32(dim)
		frequencies[i] = 1 / float32(expDouble(float64(exponent)*logTheta))
	}
	return frequencies
}

// RopeTable stores cos and sin of float32(position)·frequency (a float32 product) for each frequency.
func RopeTable(cos, sin []float32, position int, frequencies []float32) {
	for i, f := range frequencies {
		s, c := sinCosDouble(float64(float32(float32(position) * f)))
		sin[i], cos[i] = float32(s), float32(c)
	}
}
