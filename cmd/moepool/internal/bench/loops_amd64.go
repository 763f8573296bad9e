//go:build !purego

package bench

import (
	"github.com/moepool/moepool/kernels"
)

// bestLoops chooses by what the CPU has; features are independent, so each set is asked for whole.
func bestLoops() loops {
	present := map[string]bool{}
	for _, f := range kernels.Features() {
		present[f.Name] = f.Present
	}
	l := plainLoops
	if !present["avx2"] || !present["fma"] {
		return l
	}
	l.read = reader{"avx2", readVectors}
	l.int8 = loop{"avx2", func(n int) { preemptible(dotAVX2, n) }, 6 * 2 * 32}
	l.float = loop{"fma", func(n int) { preemptible(fmaAVX2, n) }, 12 * 2 * 8}
	if present["avx_vnni"] {
		l.int8 = loop{"avx_vnni", func(n int) { preemptible(dotAVXVNNI, n) }, 12 * 2 * 32}
	}
	if present["avx512f"] && present["avx512bw"] && present["avx512vl"] {
		l.float = loop{"avx512f", func(n int) { preemptible(fmaAVX512, n) }, 12 * 2 * 16}
		if present["avx512_vnni"] {
			l.int8 = loop{"avx512_vnni", func(n int) { preemptible(dotAVX512, n) }, 12 * 2 * 64}
		}
	}
	return l
}

// preemptible calls assembly from a function with a stack check: a loop around bare assembly is never stopped.
//
//go:noinline
func preemptible(assembly func(iterations int), iterations int) { assembly(iterations) }

//go:noinline
func readVectors(data []byte, places [4]int, ahead, step, iterations int) uint64 {
	if iterations < 1 {
		return 0
	}
	for _, at := range places {
		_ = data[at : at+(iterations-1)*step+128] // assembly checks nothing
	}
	return readStreams(&data[places[0]], &data[places[1]], &data[places[2]], &data[places[3]], ahead, step, iterations)
}
