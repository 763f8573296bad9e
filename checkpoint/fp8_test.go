package checkpoint

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// e4m3Value computes a value from the format's definition.
func e4m3Value(code int) float64 {
	sign := float64(1 - code>>7*2)
	exponent, fraction := code>>3&15, float64(code&7)
	switch {
	case code&0x7f == 0x7f:
		return math.NaN()
	case exponent == 0:
		return sign * math.Ldexp(fraction/8, -6)
	}
	return sign * math.Ldexp(1+fraction/8, exponent-7)
}

func TestAllE4M3(t *testing.T) {
	t.Parallel()
	for code, got := range e4m3Values {
		want := float32(e4m3Value(code))
		if math.Float32bits(got) != math.Float32bits(want) && !(got != got && want != want) {
			if want == 0 && got == 0 {
				continue
			}
			t.Errorf("%#02x gives %v, want %v", code, got, want)
		}
	}
	if e4m3Values[0x7e] != 448 || e4m3Values[0x01] != 0x1p-9 {
		t.Errorf("the largest value is %v, the smallest %v", e4m3Values[0x7e], e4m3Values[0x01])
	}
}

const fp8Model = "../testdata/tiny/qwen3_moe_fp8"

// Every weight of the fixture is its byte's value times the scale of its block; the last blocks have 64 rows or columns.
func TestBlockFP8(t *testing.T) {
	t.Parallel()
	cp, err := Open(fp8Model)
	if err != nil {
		t.Fatal(err)
	}
	defer cp.Close()
	matrices := 0
	for _, name := range cp.Names() {
		x, err := cp.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if x.DType != F8E4M3 {
			continue
		}
		matrices++
		scales, err := cp.Tensor(name + "_scale_inv")
		if err != nil {
			t.Fatal(err)
		}
		s, all := scales.Float32(), x.Float32()
		across := (x.Columns() + 127) / 128
		for i := range x.Rows() {
			for c := range x.Columns() {
				want := float32(e4m3Value(int(x.Data[i*x.Columns()+c])) * float64(s[i/128*across+c/128]))
				if got := all[i*x.Columns()+c]; got != want {
					t.Fatalf("%s [%d, %d] is %v, want %v", name, i, c, got, want)
				}
			}
			part := make([]float32, x.Columns()-50)
			x.RowRange(i, 50, part)
			for c, got := range part {
				if got != all[i*x.Columns()+50+c] {
					t.Fatalf("%s: column %d of row %d is %v in a range, %v alone", name, 50+c, i, got, all[i*x.Columns()+50+c])
				}
			}
		}
	}
	if matrices != 3*(4+8*3) {
		t.Errorf("%d matrices are in FP8", matrices)
	}
}

// Scales that are missing or have another shape are found at Open.
func TestBlockFP8BadScales(t *testing.T) {
	t.Parallel()
	const name = "model.layers.1.mlp.experts.3.down_proj.weight_scale_inv"
	for what, test := range map[string]struct{ from, to, want string }{
		"missing": {name + `"`, strings.Replace(name, "scale_inv", "scale_out", 1) + `"`, name},
		"shape":   {name + `":{"dtype":"F32","shape":[2,1]`, name + `":{"dtype":"F32","shape":[1,2]`, "shape [2 1]"},
	} {
		dir := t.TempDir()
		for _, file := range []string{"config.json", "model.safetensors"} {
			data, err := os.ReadFile(filepath.Join(fp8Model, file))
			if err != nil {
				t.Fatal(err)
			}
			if file == "model.safetensors" {
				end := 8 + binary.LittleEndian.Uint64(data)
				header := string(data[8:end])
				if !strings.Contains(header, test.from) {
					t.Fatalf("%s: the header has no %s", what, test.from)
				}
				copy(data[8:end], strings.Replace(header, test.from, test.to, 1))
			}
			if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cp, err := Open(dir)
		if err == nil {
			cp.Close()
			t.Errorf("%s: opened", what)
			continue
		}
		if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "model.safetensors") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
