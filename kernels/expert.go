package kernels

// ExpertShape is the size of one expert part: gate and up are [Intermediate, Hidden], down is [Hidden, Intermediate].
type ExpertShape struct {
	Format               Format
	Hidden, Intermediate int
}

// Bytes is the packed size of the three matrices together.
func (s ExpertShape) Bytes() int {
	return 2*MatrixBytes(s.Format, s.Intermediate, s.Hidden) + MatrixBytes(s.Format, s.Hidden, s.Intermediate)
}

// Split gives the three matrices inside data, which is Bytes long: gate, up, down, one after the other.
func (s ExpertShape) Split(data []byte) Expert {
	inner := MatrixBytes(s.Format, s.Intermediate, s.Hidden)
	down := MatrixBytes(s.Format, s.Hidden, s.Intermediate)
	return Expert{
		Gate: Matrix{s.Format, s.Intermediate, s.Hidden, data[:inner:inner]},
		Up:   Matrix{s.Format, s.Intermediate, s.Hidden, data[inner : 2*inner : 2*inner]},
		Down: Matrix{s.Format, s.Hidden, s.Intermediate, data[2*inner : 2*inner+down : 2*inner+down]},
	}
}

// Expert is one packed expert part.
type Expert struct{ Gate, Up, Down Matrix }

// PartRange gives the intermediate rows [from, to) that part p of parts holds, in whole units of PartUnit: the first
// parts get one unit more where they don't divide. MaxParts is the largest valid number of parts.
func PartRange(f Format, intermediate, parts, p int) (from, to int) {
	units := MaxParts(f, intermediate)
	start := func(p int) int { return min(intermediate, (p*(units/parts)+min(p, units%parts))*f.PartUnit()) }
	return start(p), start(p + 1)
}

// MaxParts is the number of units of an intermediate dimension.
func MaxParts(f Format, intermediate int) int {
	return (intermediate + f.PartUnit() - 1) / f.PartUnit()
}
