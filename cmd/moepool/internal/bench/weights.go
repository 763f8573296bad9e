package bench

import (
	"math/rand/v2"

	"github.com/moepool/moepool/kernels"
)

// weights make many experts from one: packing takes long, and a packed matrix with its blocks of outputs in another order is a packed
// matrix as well.
type weights struct {
	shape kernels.ExpertShape
	data  []byte // a packed expert
}

// newWeights packs an expert of normally distributed weights.
func newWeights(shape kernels.ExpertShape) (*weights, error) {
	w := &weights{shape: shape, data: make([]byte, shape.Bytes())}
	random := rand.New(rand.NewPCG(3, 4))
	e := shape.Split(w.data)
	for _, m := range []kernels.Matrix{e.Gate, e.Up, e.Down} {
		if err := packRandom(m, random); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// packRandom fills a matrix with weights of deviation 0.02, as models are initialised.
func packRandom(m kernels.Matrix, random *rand.Rand) error {
	return kernels.Pack(m, func(_ int, dst []float32) {
		for i := range dst {
			dst[i] = float32(random.NormFloat64()) * 0.02
		}
	})
}

// vary stores a variant of the expert.
func (w *weights) vary(dst []byte, variant int) {
	from, to := w.shape.Split(w.data), w.shape.Split(dst)
	rotateBlocks(to.Gate, from.Gate, variant)
	rotateBlocks(to.Up, from.Up, variant*3)
	rotateBlocks(to.Down, from.Down, variant*5)
}

// rotateBlocks copies a matrix with its blocks of outputs rotated by n; as it is, where the last block is not whole.
func rotateBlocks(dst, src kernels.Matrix, n int) {
	block := kernels.MatrixBytes(src.Format, kernels.BlockOutputs, src.Columns)
	blocks := len(src.Data) / block
	if src.Outputs%kernels.BlockOutputs != 0 || len(src.Data)%block != 0 {
		n = 0
	}
	at := n % max(blocks, 1) * block
	copy(dst.Data[copy(dst.Data, src.Data[at:]):], src.Data[:at])
}
