package sampling

// uniform is the random number of a position, in [0, 1) in steps of 2^-53. It is SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, 2014) with the position as its counter: no state that a continuation would have to know. The
// seed is mixed first, so that the sequences of neighbouring seeds have nothing in common.
func uniform(seed uint64, position int) float64 {
	const gamma = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio, odd
	x := mix(mix(seed+gamma) + (uint64(position)+1)*gamma)
	return float64(x>>11) / (1 << 53)
}

// mix is SplitMix64's finalizer.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
