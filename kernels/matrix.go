package kernels

// Matrix is a packed weight matrix y = W x with W of shape [Outputs, Columns].
type Matrix struct {
	Format           Format
	Outputs, Columns int
	Data             []byte // MatrixBytes long, 64-byte aligned
}

// MatrixBytes is the packed size, a multiple of 64.
func MatrixBytes(f Format, outputs, columns int) int { panic("skeleton") }

// Pack fills m.Data from rows of float32 weights: row(o, dst) stores the Columns weights of output o into dst.
func Pack(m Matrix, row func(output int, dst []float32)) error { panic("skeleton") }

// Unpack stores the weights of one output, as products use them, into dst [Columns].
func (m Matrix) Unpack(output int, dst []float32) { panic("skeleton") }

// ExpertShape is the size of one expert part: gate and up are [Intermediate, Hidden], down is [Hidden, Intermediate].
type ExpertShape struct {
	Format               Format
	Hidden, Intermediate int
}

// Bytes is the packed size of the three matrices together.
func (s ExpertShape) Bytes() int { panic("skeleton") }

// Split gives the three matrices inside data, which is Bytes long.
func (s ExpertShape) Split(data []byte) Expert { panic("skeleton") }

// Expert is one packed expert part.
type Expert struct{ Gate, Up, Down Matrix }

// PartRange gives the intermediate rows [from, to) that part p of parts holds, in whole units of PartUnit: the first
// parts get one unit more where they don't divide. MaxParts is the largest valid number of parts.
func PartRange(f Format, intermediate, parts, p int) (from, to int) { panic("skeleton") }

// MaxParts is the number of units of an intermediate dimension.
func MaxParts(f Format, intermediate int) int { panic("skeleton") }
