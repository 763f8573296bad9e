package kernels

// Gathered are rows of activations, chosen once for several products: an expert's rows of a batch. An implementation may keep them
// arranged for its tiles; others refer to the rows, so activations and list must stay as they are until the last product.
//
// Codes and Terms are the memory of that arrangement. They are reused by the next Gather and may be set to slices of length 0 whose
// capacity is GatheredSize; without that, Gather allocates. Concurrent products may read the same Gathered.
type Gathered struct {
	Codes []int8
	Terms []uint64

	activations *Activations
	rows        []int32
	tiles       int // of about equal size; 0: not arranged
}

// GatheredSize is the memory that Gather needs at most for rows of columns, in elements of Codes and Terms.
func GatheredSize(rows, columns int) (codes, terms int) {
	groups := Groups(columns)
	return rows * groups * GroupColumns, rows * groups
}

// Gather chooses rows of a, for products with matrices of a format.
func (s *Set) Gather(g *Gathered, f Format, a *Activations, rows []int32) {
	for _, r := range rows {
		if r < 0 || int(r) >= a.Rows {
			panicf("row %d of %d", r, a.Rows)
		}
	}
	g.activations, g.rows, g.tiles = a, rows, 0
	if f == Q8 && a.Quantized && s.operations.gatherQ8 != nil {
		s.operations.gatherQ8(g)
	}
}

// MultiplyGathered is Multiply with the rows that were gathered, by this set.
func (s *Set) MultiplyGathered(dst []float32, stride int, m Matrix, g *Gathered, from, to int) {
	if len(g.rows) == 0 || from >= to {
		return
	}
	if g.tiles == 0 || m.Format != Q8 {
		s.Multiply(dst, stride, m, g.activations, g.rows, from, to)
		return
	}
	checkMultiply(len(dst), stride, m, g.activations, g.rows, from, to)
	s.operations.multiplyQ8Gathered(dst, stride, m, g, from, to)
}
