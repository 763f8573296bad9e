//go:build !purego

package kernels

// avx512 computes with AVX-512 instructions, 16 float32 or 64 bytes at a time, and VNNI for integer products. What gains nothing
// from wider vectors is avx2's. Assembly is called as avx2 does (see there).
var avx512 = func() Set {
	s := avx2
	s.name = "avx512"
	s.requires = append([]string{"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"}, avx2.requires...)
	s.operations.multiplyFloat = multiplyFloatAVX512
	s.operations.multiplyFP8 = multiplyFloatAVX512
	s.operations.multiplyQ8 = multiplyQ8AVX512
	s.operations.multiplyQ4 = multiplyQ4AVX512
	s.operations.multiplyMXFP4 = multiplyQ4AVX512
	s.operations.gatherQ8 = gatherQ8AVX512
	s.operations.multiplyQ8Gathered = multiplyQ8Gathered512
	s.operations.siluMultiply = siluMultiply512
	s.operations.expMinus = expMinus512
	s.operations.attendBlock = attendBlock512
	s.operations.accumulate = accumulate512
	s.operations.fromFixed = fromFixed512
	return s
}()
