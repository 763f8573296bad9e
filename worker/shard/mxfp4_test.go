package shard

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/kernels"
)

// e2m1 are the values of the codes as transformers' loader has them.
var e2m1 = [16]float64{0, .5, 1, 1.5, 2, 3, 4, 6, math.Copysign(0, -1), -.5, -1, -1.5, -2, -3, -4, -6}

// storedExperts are the experts' matrices of one tensor in a gpt-oss checkpoint: NAME_blocks [experts, outputs, groups, 16] and
// NAME_scales [experts, outputs, groups].
type storedExperts struct {
	name                     string
	experts, outputs, groups int
	blocks, scales           []byte
}

func (s storedExperts) of(expert, output int) (blocks, scales []byte) {
	i := (expert*s.outputs + output) * s.groups
	return s.blocks[16*i : 16*(i+s.groups)], s.scales[i : i+s.groups]
}

// weight computes a weight from the definition.
func (s storedExperts) weight(expert, output, column int) float64 {
	blocks, scales := s.of(expert, output)
	return math.Ldexp(e2m1[blocks[column/2]>>(column%2*4)&15], int(scales[column/32])-127)
}

func openStored(t *testing.T) (all []storedExperts) {
	file, err := checkpoint.OpenTensors("../../testdata/tiny/gpt_oss_mxfp4/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	for _, name := range file.Names() {
		base, stored := strings.CutSuffix(name, "_blocks")
		if !stored {
			continue
		}
		blocks, err := file.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		scales, err := file.Tensor(base + "_scales")
		if err != nil {
			t.Fatal(err)
		}
		if len(blocks.Shape) != 4 || blocks.Shape[3] != 16 || !slices.Equal(scales.Shape, blocks.Shape[:3]) {
			t.Fatalf("%s: shapes %v and %v", base, blocks.Shape, scales.Shape)
		}
		all = append(all, storedExperts{base, blocks.Shape[0], blocks.Shape[1], blocks.Shape[2], blocks.Data, scales.Data})
	}
	if len(all) != 8 {
		t.Fatalf("%d tensors are stored as blocks, want 8", len(all))
	}
	return all
}

func (s storedExperts) pack(t *testing.T, expert int) kernels.Matrix {
	m := kernels.Matrix{Format: kernels.MXFP4, Outputs: s.outputs, Columns: 32 * s.groups}
	m.Data = make([]byte, kernels.MatrixBytes(m.Format, m.Outputs, m.Columns))
	err := kernels.PackStoredMXFP4(m, func(output int, blocks, scales []byte) {
		b, e := s.of(expert, output)
		copy(blocks, b)
		copy(scales, e)
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestStoredMXFP4: a checkpoint's own blocks unpack to the values that their definition gives, bit for bit, which are those of the weights
// that they were made from within half a step; quantising these values again gives the same bytes.
func TestStoredMXFP4(t *testing.T) {
	t.Parallel()
	original, err := checkpoint.OpenTensors("../../testdata/tiny/gpt_oss/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { original.Close() })
	for _, s := range openStored(t) {
		from, err := original.Float32s(s.name) // [experts, columns, outputs]
		if err != nil {
			t.Fatal(err)
		}
		columns := 32 * s.groups
		row := make([]float32, columns)
		for expert := range s.experts {
			m := s.pack(t, expert)
			for o := range s.outputs {
				m.Unpack(o, row)
				_, scales := s.of(expert, o)
				for c, w := range row {
					if want := float32(s.weight(expert, o, c)); math.Float32bits(w) != math.Float32bits(want) {
						t.Fatalf("%s: weight of expert %d, output %d, column %d is %v, want %v", s.name, expert, o, c, w, want)
					}
					before := float64(from[(expert*columns+c)*s.outputs+o])
					step := math.Ldexp(1, int(scales[c/32])-127) // half of that between 4 and 6, and what 8 is cut by
					if math.Abs(before) > 6*step {
						step *= 2
					}
					if math.Abs(float64(w)-before) > step {
						t.Fatalf("%s: weight of expert %d, output %d, column %d is %v, made from %v", s.name, expert, o, c, w, before)
					}
				}
			}
			again := kernels.Matrix{Format: m.Format, Outputs: m.Outputs, Columns: m.Columns, Data: make([]byte, len(m.Data))}
			if err := kernels.Pack(again, m.Unpack); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again.Data, m.Data) {
				t.Fatalf("%s, expert %d: its values are quantised to other bytes", s.name, expert)
			}
		}
	}
}

// TestProductsOfStoredMXFP4: with a checkpoint's own blocks, each implementation gives exactly the sum over groups of the exact dot
// products, which is the product with the weights' values but for the rounding of activations.
func TestProductsOfStoredMXFP4(t *testing.T) {
	t.Parallel()
	for _, s := range openStored(t) {
		columns, m := 32*s.groups, s.pack(t, 3)
		var a kernels.Activations
		const rows = 5
		a.Reset(true, rows, columns)
		x, want := make([][]float32, rows), make([]float32, rows*s.outputs)
		set, err := kernels.Select("generic")
		if err != nil {
			t.Fatal(err)
		}
		for r := range x {
			x[r] = make([]float32, columns)
			for c := range x[r] {
				x[r][c] = float32((c*37+r*11)%101-50) / 17
			}
			if err := set.Prepare(&a, r, x[r]); err != nil {
				t.Fatal(err)
			}
			for o := range s.outputs {
				_, scales := s.of(3, o)
				acc, exact, tolerance := float32(0), 0.0, 0.0
				for g, e := range scales {
					dot, scale := 0.0, a.Scales[r*kernels.Groups(columns)+g/2]
					for c := 32 * g; c < 32*g+32; c++ {
						w := s.weight(3, o, c)
						dot += float64(a.Codes[r*kernels.PaddedColumns(columns)+c]) * math.Ldexp(w, 128-int(e))
						exact += w * float64(x[r][c])
						tolerance += math.Abs(w) * float64(scale) * 0.501
					}
					acc = kernels.FMA(float32(dot), float32(scale*float32(math.Ldexp(1, int(e)-128))), acc)
				}
				if math.Abs(float64(acc)-exact) > tolerance+1e-6 {
					t.Fatalf("%s: the reference %v of row %d, output %d is too far from %v", s.name, acc, r, o, exact)
				}
				want[r*s.outputs+o] = acc
			}
		}
		for _, name := range kernels.Available() {
			set, err := kernels.Select(name)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, len(want))
			set.Multiply(got, s.outputs, m, &a, []int32{0, 1, 2, 3, 4}, 0, s.outputs)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s with %s: element %d is %v, want %v", s.name, name, i, got[i], want[i])
				}
			}
		}
	}
}
