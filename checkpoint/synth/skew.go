package synth

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/moepool/moepool/checkpoint"
)

// maxSkew keeps the norms of a router's rows within e^±18 of each other.
const maxSkew = 4

// skewFactors gives for each row of a router what its deviation is multiplied by: exp(skew·z), divided by the root of the mean
// square, so that the scores as a whole neither flatten nor sharpen. The z are the normal distribution's quantiles at
// (i+½)/rows, dealt to the rows in an order that depends on seed and name only: every layer is skewed alike, but favours other
// experts. A row of larger norm has scores of larger deviation, so it is more often among the best.
func skewFactors(seed uint64, name string, rows int, skew float64) []float64 {
	order := make([]int, rows)
	for i := range order {
		order[i] = i
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "moepool synth skew 1|%d|%s", seed, name))
	state := binary.LittleEndian.Uint64(digest[:])
	for i := rows - 1; i > 0; i-- {
		j := int(next(&state) % uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
	values, factors := quantiles(), make([]float64, rows)
	squares := 0.0
	for rank, row := range order {
		z := values[(2*rank+1)*len(values)/(2*rows)]
		if x := float64(skew * z); x < 0 {
			factors[row] = expNegative(-x)
		} else {
			factors[row] = 1 / expNegative(x)
		}
	}
	for _, f := range factors {
		squares += float64(f * f)
	}
	root := math.Sqrt(squares / float64(rows))
	for i := range factors {
		factors[i] /= root
	}
	return factors
}

// rowsChunk is chunk for a matrix [len(factors), columns] whose rows have deviations of their own. It takes the same random
// numbers.
func (g *source) rowsChunk(dst []byte, name string, number int64, f fill, columns int, factors []float64) {
	state := g.state(name, number)
	at := number * chunkElements
	deviation := func() float64 {
		d := float64(f.deviation * factors[at/int64(columns)])
		at++
		return d
	}
	if g.dtype == checkpoint.F32 {
		for ; len(dst) >= 4; dst = dst[4:] {
			z := between(next(&state))
			binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(f.mean+float64(deviation()*z))))
		}
		return
	}
	values, r := quantiles(), uint64(0)
	for i := 0; len(dst) >= 2; i, dst = i+1, dst[2:] {
		if i%4 == 0 {
			r = next(&state)
		}
		binary.LittleEndian.PutUint16(dst, g.half(float32(f.mean+float64(deviation()*values[uint16(r)]))))
		r >>= 16
	}
}
