package synth

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/moepool/moepool/checkpoint"
)

// chunkElements is how many weights come from one stream of random numbers. It is part of what a Spec means: a chunk depends on
// the seed, the tensor's name and its own number only, so chunks can be made in any order by any number of goroutines.
const chunkElements = 1 << 19

// fill describes the values of one tensor: mean + deviation·normal.
type fill struct{ mean, deviation float64 }

// source makes weights of one Spec.
type source struct {
	seed   uint64
	dtype  checkpoint.DType
	mu     sync.Mutex
	tables map[fill]*[1 << 16]uint16 // 16-bit types: the values by 16 random bits
}

func newSource(s *Spec) *source {
	return &source{seed: s.Seed, dtype: s.dtype(), tables: map[fill]*[1 << 16]uint16{}}
}

// table gives the values of a 16-bit type for a fill.
func (g *source) table(f fill) *[1 << 16]uint16 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tables[f]; t != nil {
		return t
	}
	t := new([1 << 16]uint16)
	for i, z := range quantiles() {
		t[i] = g.half(float32(f.mean + float64(f.deviation*z)))
	}
	g.tables[f] = t
	return t
}

// half gives the bits of a 16-bit element.
func (g *source) half(value float32) uint16 {
	if g.dtype == checkpoint.F16 {
		return toF16(value)
	}
	return toBF16(value)
}

// chunk fills dst with the elements of a tensor's chunk.
func (g *source) chunk(dst []byte, name string, number int64, f fill) {
	state := g.state(name, number)
	if g.dtype == checkpoint.F32 {
		fillFloats(dst, state, f)
		return
	}
	fillHalves(dst, state, g.table(f))
}

// state starts the random numbers of a chunk.
func (g *source) state(name string, number int64) uint64 {
	digest := sha256.Sum256(fmt.Appendf(nil, "moepool synth 1|%d|%s|%d", g.seed, name, number))
	return binary.LittleEndian.Uint64(digest[:])
}

// next is SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
func next(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// fillHalves takes four 16-bit elements from each random number.
func fillHalves(dst []byte, state uint64, table *[1 << 16]uint16) {
	for len(dst) >= 8 {
		r := next(&state)
		binary.LittleEndian.PutUint64(dst, uint64(table[uint16(r)])|uint64(table[uint16(r>>16)])<<16|
			uint64(table[uint16(r>>32)])<<32|uint64(table[uint16(r>>48)])<<48)
		dst = dst[8:]
	}
	r := next(&state)
	for ; len(dst) >= 2; dst = dst[2:] {
		binary.LittleEndian.PutUint16(dst, table[uint16(r)])
		r >>= 16
	}
}

// fillFloats takes one element from each random number.
func fillFloats(dst []byte, state uint64, f fill) {
	for ; len(dst) >= 4; dst = dst[4:] {
		z := between(next(&state))
		binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(f.mean+float64(f.deviation*z))))
	}
}

// between makes a normal number of 32 random bits: a place between two neighbouring quantiles, so that all 24 bits of a
// float32's significand are in use.
func between(r uint64) float64 {
	values := quantiles()
	i := uint16(r)
	lower, upper := values[i], values[min(int(i)+1, len(values)-1)]
	return lower + float64((upper-lower)*(float64(uint16(r>>16))/(1<<16)))
}
