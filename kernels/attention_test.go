package kernels

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// attention in float64, all keys at once.
func slowAttention(q, keys, values []float32, n, valueDim int, scale float64) []float64 {
	scores := make([]float64, n)
	highest, total := math.Inf(-1), 0.0
	for i := range scores {
		for d, v := range q {
			scores[i] += float64(v) * float64(keys[i*len(q)+d]) * scale
		}
		highest = max(highest, scores[i])
	}
	out := make([]float64, valueDim)
	for i, score := range scores {
		p := math.Exp(score - highest)
		total += p
		for d := range out {
			out[d] += p * float64(values[i*valueDim+d])
		}
	}
	for d := range out {
		out[d] /= total
	}
	return out
}

// Blocks merged one after the other are attention over all keys.
func TestAttentionInBlocks(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		for _, f := range []KVFormat{KVF32, KVBF16, KVInt8} {
			tolerance := map[KVFormat]float64{KVF32: 3e-6, KVBF16: 2e-2, KVInt8: 4e-2}[f]
			for _, dims := range [][2]int{{64, 64}, {128, 128}, {24, 40}, {5, 3}, {192, 128}} {
				const n = 300
				in := newInputs(t, uint64(dims[0]), ordinary)
				keys, values := in.floats(n*dims[0]), in.floats(n*dims[1])
				scale := float32(1 / math.Sqrt(float64(dims[0])))
				tile := in.attentionTile(5, dims[0], dims[1])
				for from := 0; from < n; from += KVBlockKeys {
					b := KVBlock{f, dims[0], dims[1], buffer[byte](in, KVBlockBytes(f, dims[0], dims[1]))}
					to := min(from+KVBlockKeys, n)
					for key := from; key < to; key++ {
						s.StoreKV(b, key-from, keys[key*dims[0]:(key+1)*dims[0]], values[key*dims[1]:(key+1)*dims[1]])
					}
					for i := range tile.Rows {
						tile.From[i], tile.To[i] = 0, int32(to-from)
					}
					s.AttendBlock(tile, b, scale)
				}
				for i := range tile.Rows {
					out := tile.State.Out[i]
					s.Divide(out, tile.State.Sum[i])
					for d, want := range slowAttention(tile.Q[i], keys, values, n, dims[1], float64(scale)) {
						if math.Abs(float64(out[d])-want) > tolerance {
							t.Fatalf("%v %v: out[%d] of query %d = %v, want %v", f, dims, d, i, out[d], want)
						}
					}
				}
			}
		}
	})
}

// What a key that is not seen holds has no influence, be it a NaN.
func TestUnseenKeysDontCount(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		for _, f := range kvFormats {
			in := newInputs(t, 3, ordinary)
			a, b := in.attentionTile(AttentionRows, 40, 50), in.attentionTile(AttentionRows, 40, 50)
			clean := in.kvBlock(s, f, 40, 50)
			dirty := KVBlock{f, 40, 50, buffer[byte](in, len(clean.Data))}
			copy(dirty.Data, clean.Data)
			in.kind = notFinite
			for key := range KVBlockKeys {
				if key < 9 || key >= 33 {
					s.StoreKV(dirty, key, in.floats(40), in.floats(50))
				}
			}
			b.Q = a.Q
			for i := range a.Rows {
				a.From[i], a.To[i] = int32(9+i), int32(33-i/3)
			}
			b.From, b.To = a.From, a.To
			s.AttendBlock(a, clean, 0.2)
			s.AttendBlock(b, dirty, 0.2)
			var got, want results
			got.addState(&b.State, b.Rows)
			want.addState(&a.State, a.Rows)
			requireSame(t, f.String(), got.floats, want.floats)
			for _, v := range want.floats {
				if v != v {
					t.Fatal("a clean block gives a NaN")
				}
			}
		}
	})
}

// An int8 key and value come back within half a step of their own scale; those that are not finite come back as NaN.
func TestKVInt8Codes(t *testing.T) {
	t.Parallel()
	in := newInputs(t, 1, ordinary)
	b := KVBlock{KVInt8, 3, 3, buffer[byte](in, KVBlockBytes(KVInt8, 3, 3))}
	inf := float32(math.Inf(1))
	generic.StoreKV(b, 0, []float32{-127, 2.5, 3.5}, []float32{0.5, 0.25, 0.126})
	generic.StoreKV(b, 1, []float32{0, 0, 0}, []float32{0x1p-140, 0, 0})
	generic.StoreKV(b, 63, []float32{1, inf, 0}, []float32{0, float32(math.NaN()), 1})
	scales := b.scales()
	requireSame(t, "scales", []float32{scales[0], scales[64], scales[1], scales[65]}, []float32{1, 0.5 / 127, 0, 0})
	for _, scale := range []float32{scales[63], scales[127]} {
		if scale == scale {
			t.Errorf("what is not finite has the scale %v", scale)
		}
	}
	var codes []float32
	keys, values := elements[int8](b.keys()), elements[int8](b.values())
	for d := range 3 {
		for _, at := range []int{0, 1, 63} {
			codes = append(codes, float32(keys[b.keyAt(at, d)]), float32(values[b.valueAt(at, d)]))
		}
	}
	requireSame(t, "codes", codes, []float32{-127, 127, 0, 0, 0, 0, 2, 64, 0, 0, 0, 0, 4, 32, 0, 0, 0, 0})
}

func BenchmarkAttendBlock(b *testing.B) {
	for _, f := range kvFormats {
		for _, rows := range []int{1, 4, 8} {
			for _, name := range Available() {
				b.Run(fmt.Sprintf("format=%v/rows=%d/kernels=%s", f, rows, name), func(b *testing.B) {
					s, _ := Select(name)
					in := newInputs(b, 1, ordinary)
					tile, block := in.attentionTile(rows, 128, 128), in.kvBlock(s, f, 128, 128)
					for i := range rows {
						tile.From[i], tile.To[i] = 0, KVBlockKeys
					}
					best := time.Duration(math.MaxInt64)
					for b.Loop() {
						start := time.Now()
						s.AttendBlock(tile, block, 0.1)
						best = min(best, time.Since(start))
					}
					b.ReportMetric(float64(best.Nanoseconds()), "best-ns")
				})
			}
		}
	}
}
