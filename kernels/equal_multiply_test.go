package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

// product is one call of Multiply.
type product struct {
	Format           Format
	Outputs, Columns int
	Rows             int // of the activations
	Used             int // rows of the call, drawn from them
	Spaced           int // or 0, Spaced, 2·Spaced, ... if positive
	From, To         int
	Kind             valueKind
	RawCodes         bool // q8, q4, mxfp4: any bytes as weights, any finite scales
	Seed             uint64
}

// compute gives the destination and what lies around it, for one implementation.
func (p product) compute(t testing.TB, s *Set) []float32 {
	in := newInputs(t, p.Seed, p.Kind)
	m := in.matrix(p.Format, p.Outputs, p.Columns)
	a := in.activations(p.Format.Quantized(), p.Rows, p.Columns)
	if p.RawCodes && p.Format.Quantized() {
		in.fillRaw(m, a)
	}
	rows := make([]int32, p.Used)
	for i := range rows {
		rows[i] = int32(in.random.IntN(p.Rows))
		if p.Spaced > 0 {
			rows[i] = int32(i * p.Spaced)
		}
	}
	const margin = 5
	stride := p.To + in.random.IntN(9)
	dst := buffer[float32](in, margin+(p.Used-1)*stride+p.To) // ends where the last output does
	for i := range dst {
		dst[i] = -1.5e-33 // must stay where nothing is written
	}
	if p.Seed%2 == 0 {
		s.Multiply(dst[margin:], stride, m, a, rows, p.From, p.To)
		return dst
	}
	var g Gathered
	s.Gather(&g, p.Format, a, rows)
	s.MultiplyGathered(dst[margin:], stride, m, &g, p.From, p.To)
	return dst
}

// fillRaw replaces weights by random bytes with random finite scales, and codes of activations by their extremes.
func (in *inputs) fillRaw(m Matrix, a *Activations) {
	for i := range m.Data {
		m.Data[i] = byte(in.random.Uint32())
		if in.random.IntN(4) == 0 {
			m.Data[i] = [...]byte{0, 1, 255, 128}[in.random.IntN(4)]
		}
	}
	for b := 0; b < m.Outputs; b += BlockOutputs {
		block := m.block(b)
		groups, size := Groups(m.Columns), fullGroupBytes
		if m.Format == Q4 {
			groups, size = q4Groups(m.Columns), q4GroupBytes
		}
		if m.Format == MXFP4 {
			for g := range groups {
				for o := range 2 * BlockOutputs { // any scale but NaN
					block[g*mxfp4GroupBytes+o] = byte(in.random.IntN(mxfp4NaN))
				}
			}
			continue
		}
		for g := range groups {
			for o := range BlockOutputs {
				binary.LittleEndian.PutUint16(block[g*size+2*o:], toBF16(in.float())&0xbfff)
			}
		}
	}
	for r := range a.Rows {
		codes := a.codes(r)[:a.Columns]
		for i := range codes {
			codes[i] = int8(in.random.IntN(255) - 127)
			if in.random.IntN(2) == 0 {
				codes[i] = [...]int8{-127, 127}[in.random.IntN(2)]
			}
		}
	}
	for i := range a.Scales {
		a.Scales[i] = math.Float32frombits(math.Float32bits(in.float()) & 0x5fffffff)
	}
}

func (p product) check(t testing.TB, s *Set) {
	t.Helper()
	part(t, func(t testing.TB) {
		t.Helper()
		requireSame(t, fmt.Sprintf("%+v", p), p.compute(t, s), p.compute(t, &generic))
	})
}

func TestMultiplyEqualsReference(t *testing.T) {
	eachImplementation(t, func(t *testing.T, s *Set) {
		for _, f := range Formats() {
			t.Run(f.String(), func(t *testing.T) {
				t.Parallel()
				seed := uint64(0)
				for _, columns := range []int{1, 2, 3, 4, 5, 7, 31, 32, 33, 40, 60, 63, 64, 65, 128, 160, 192, 255, 256, 257, 320, 512, 515} {
					for _, outputs := range []int{1, 31, 32, 33, 96} {
						seed++
						used := int(1 + seed%9)
						kind := valueKind(seed) % notFinite
						product{f, outputs, columns, used, used, 0, 0, outputs, kind, seed%5 == 0, seed}.check(t, s)
					}
				}
			})
		}
	})
}

// Calls are cut into pieces: these matrices need several per block.
func TestMultiplyEqualsReferenceOverManyCalls(t *testing.T) {
	eachImplementation(t, func(t *testing.T, s *Set) {
		for i, f := range Formats() {
			for used := 1; used <= 4; used++ {
				product{f, 33, 16384 + 70, 4, used, 0, 0, 33, ordinary, false, uint64(10*used + i)}.check(t, s)
			}
		}
	})
}

// Many rows are gathered and cut into tiles of any size, and the tiles into chunks; weights are prepared once for several tiles.
func TestMultiplyEqualsReferenceForManyRows(t *testing.T) {
	eachImplementation(t, func(t *testing.T, s *Set) {
		for _, f := range Formats() {
			t.Run(f.String(), func(t *testing.T) {
				t.Parallel()
				for used := 9; used <= 140; used += 1 + used/12 {
					columns := []int{64, 100, 515, 1027}[used%4]
					product{Format: f, Outputs: 70, Columns: columns, Rows: 20, Used: used, From: 32 * (used % 2), To: 70, Kind: ordinary, RawCodes: used%3 == 0, Seed: uint64(used)}.check(t, s)
				}
			})
		}
	})
}

func drawProduct(t *rapid.T) product {
	p := product{
		Format:   rapid.SampledFrom(Formats()).Draw(t, "format"),
		Outputs:  rapid.IntRange(1, 130).Draw(t, "outputs"),
		Columns:  rapid.IntRange(1, 400).Draw(t, "columns"),
		Rows:     rapid.IntRange(1, 6).Draw(t, "rows"),
		Used:     rapid.IntRange(1, 11).Draw(t, "used"),
		Kind:     valueKind(rapid.IntRange(0, int(notFinite)-1).Draw(t, "kind")),
		RawCodes: rapid.Bool().Draw(t, "raw"),
		Seed:     rapid.Uint64().Draw(t, "seed"),
	}
	p.From = BlockOutputs * rapid.IntRange(0, (p.Outputs-1)/BlockOutputs).Draw(t, "from block")
	p.To = min(p.Outputs, BlockOutputs*rapid.IntRange(p.From/BlockOutputs+1, (p.Outputs+BlockOutputs-1)/BlockOutputs).Draw(t, "to block"))
	return p
}

func TestMultiplyEqualsReferenceForAnyShape(t *testing.T) {
	eachImplementation(t, func(t *testing.T, s *Set) {
		rapid.Check(t, func(rt *rapid.T) {
			p := drawProduct(rt)
			p.check(t, s)
		})
	})
}

func FuzzMultiply(f *testing.F) {
	f.Add(uint8(0), uint16(33), uint16(65), uint8(3), uint8(0), true, uint64(1))
	f.Add(uint8(2), uint16(1), uint16(257), uint8(4), uint8(4), true, uint64(2))
	f.Fuzz(func(t *testing.T, format uint8, outputs, columns uint16, rows, kind uint8, raw bool, seed uint64) {
		p := product{
			Format:  Formats()[int(format)%len(Formats())],
			Outputs: int(outputs)%130 + 1, Columns: int(columns)%600 + 1, Rows: int(rows)%9 + 1,
			Kind: valueKind(kind) % notFinite, RawCodes: raw, Seed: seed,
		}
		p.Used, p.To = p.Rows, p.Outputs
		for _, name := range Available() {
			if s, err := Select(name); err == nil && s != &generic {
				p.check(t, s)
			}
		}
	})
}
