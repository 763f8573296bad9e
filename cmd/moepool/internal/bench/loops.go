package bench

import "sync/atomic"

// loop is a loop of independent multiply-adds that needs no memory.
type loop struct {
	feature    string // of the CPU
	run        func(iterations int)
	operations float64 // of one iteration
}

// reader reads memory: four places, 128 bytes each per iteration; see readStreams.
type reader struct {
	feature string
	read    func(data []byte, places [4]int, ahead, step, iterations int) uint64
}

// loops are what this CPU can do at most.
type loops struct {
	read  reader
	int8  loop
	float loop
}

// iterationsPerCall of a multiply-add loop take some 10 µs; assembly must not run for more than 100 µs, since it can't be preempted.
const iterationsPerCall = 2000

var plainLoops = loops{
	read:  reader{"generic", readPlain},
	int8:  loop{"generic", dotPlain, 2 * 8},
	float: loop{"generic", multiplyAddPlain, 2 * 8},
}

//go:noinline
func readPlain(data []byte, places [4]int, _, step, iterations int) (mixed uint64) {
	for range iterations {
		for i, at := range places {
			for _, b := range data[at : at+128 : at+128] {
				mixed ^= uint64(b)
			}
			places[i] += step
		}
	}
	return mixed
}

// sink takes the results of plain loops, so that they are not for nothing.
var sink atomic.Uint64

//go:noinline
func dotPlain(iterations int) {
	x, y := int8(iterations), int8(1)
	var a, b, c, d, e, f, g, h int32
	for range iterations {
		a += int32(x) * int32(y)
		b += int32(x) * int32(y+1)
		c += int32(x) * int32(y+2)
		d += int32(x) * int32(y+3)
		e += int32(x) * int32(y+4)
		f += int32(x) * int32(y+5)
		g += int32(x) * int32(y+6)
		h += int32(x) * int32(y+7)
		y++
	}
	sink.Add(uint64(a ^ b ^ c ^ d ^ e ^ f ^ g ^ h))
}

//go:noinline
func multiplyAddPlain(iterations int) {
	x, y := float32(iterations), float32(0.5)
	var a, b, c, d, e, f, g, h float32
	for range iterations {
		a = float32(a*y) + x
		b = float32(b*y) + x
		c = float32(c*y) + x
		d = float32(d*y) + x
		e = float32(e*y) + x
		f = float32(f*y) + x
		g = float32(g*y) + x
		h = float32(h*y) + x
	}
	sink.Add(uint64(a + b + c + d + e + f + g + h))
}
