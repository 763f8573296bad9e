package kernels

import (
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
)

// everyImplementation runs a test for all that this CPU has, the reference included.
func everyImplementation(t *testing.T, test func(t *testing.T, s *Set)) {
	t.Helper()
	t.Run(generic.name, func(t *testing.T) { test(t, &generic) })
	eachImplementation(t, test)
}

// The bits of a row's product don't depend on the other rows of the call, nor on how outputs are split.
func TestRMSNormAndSoftmax(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		for _, n := range []int{1, 15, 16, 17, 100, 2048} {
			in := newInputs(t, uint64(n), ordinary)
			x, weight, dst := in.floats(n), in.floats(n), make([]float32, n)
			s.RMSNorm(dst, x, weight, 1e-5)
			squares, total := 0.0, 0.0
			for _, v := range x {
				squares += float64(v) * float64(v)
				total += math.Exp(float64(v))
			}
			probabilities := append([]float32(nil), x...)
			s.Softmax(probabilities)
			for i, v := range x {
				want := float64(v) / math.Sqrt(squares/float64(n)+1e-5) * float64(weight[i])
				if math.Abs(float64(dst[i])-want) > 1e-6*math.Abs(want) {
					t.Fatalf("n = %d: RMSNorm[%d] = %v, want %v", n, i, dst[i], want)
				}
				if want := math.Exp(float64(v)) / total; math.Abs(float64(probabilities[i])-want) > 2e-6*want {
					t.Fatalf("n = %d: Softmax[%d] = %v, want %v", n, i, probabilities[i], want)
				}
			}
		}
		inf := float32(math.Inf(1))
		for _, x := range [][]float32{{1, float32(math.NaN()), 2}, {1, inf}, {-inf, -inf}} {
			s.Softmax(x)
			for _, v := range x {
				if v == v {
					t.Errorf("Softmax of a row without a finite result gives %v", x)
				}
			}
		}
	})
}

func TestRopeTable(t *testing.T) {
	t.Parallel()
	frequencies := InverseFrequencies(10000, 128)
	if len(frequencies) != 64 || frequencies[0] != 1 {
		t.Fatalf("%d frequencies, the first is %v", len(frequencies), frequencies[0])
	}
	cos, sin := make([]float32, 64), make([]float32, 64)
	for _, position := range []int{0, 1, 7, 1000, 131071, 1000000} {
		RopeTable(cos, sin, position, frequencies)
		for i, f := range frequencies {
			if exact := math.Pow(10000, -float64(2*i)/128); ulps(f, exact) > 1.5 {
				t.Fatalf("frequency %d is %v, want %v", i, f, exact)
			}
			angle := float64(float32(position) * f)
			if cos[i] != float32(math.Cos(angle)) || sin[i] != float32(math.Sin(angle)) {
				t.Fatalf("position %d, frequency %d: %v, %v, want %v, %v", position, i, cos[i], sin[i], math.Cos(angle), math.Sin(angle))
			}
		}
	}
}

func TestRotate(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		x := []float32{1, 2, 3, 4, 5, 6, 7, 8}
		s.Rotate(x, 4, []float32{0, 1}, []float32{1, 0}) // a quarter turn of the first pair
		requireSame(t, "two heads", x, []float32{-3, 2, 1, 4, -7, 6, 5, 8})
	})
}

func TestFixedPoint(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		sum := []int64{5, 0, 0, 0, 1 << 40}
		if err := s.Accumulate(sum, []float32{0x1p-28, 0x1p-29, 0x1.8p-28, -0x1.4p-28, 2}, 1); err != nil {
			t.Fatal(err)
		}
		requireSame(t, "sums", sum, []int64{6, 0, 2, -1, 1<<40 + 1<<29})
		dst := make([]float32, 3)
		s.FromFixed(dst, []int64{1 << 28, 1<<28 + 1, -(1<<53 + 1<<29 + 1)})
		requireSame(t, "floats", dst, []float32{1, 1, -0x1.000002p25})

		for _, n := range []int{1, 4, 7, 40} {
			for i := range n {
				for v, overflows := range map[float32]bool{0x1.fffffep23: false, -0x1.fffffep23: false, 0x1p24: true, -0x1p24: true, float32(math.NaN()): true, float32(math.Inf(1)): true} {
					y, sum := make([]float32, n), make([]int64, n)
					y[i] = v
					err := s.Accumulate(sum, y, 1)
					if overflows != errors.Is(err, ErrOverflow) {
						t.Fatalf("%v in element %d of %d: %v", v, i, n, err)
					}
					if want := int64(float64(v) * (1 << 28)); !overflows && sum[i] != want {
						t.Fatalf("%v in element %d of %d: sum %d, want %d", v, i, n, sum[i], want)
					}
				}
			}
		}
	})
}

func TestBF16(t *testing.T) {
	t.Parallel()
	for i := range 1 << 16 {
		want := uint16(i)
		if want&0x7fff > 0x7f80 {
			want |= 0x40 // a quiet NaN
		}
		if got := toBF16(fromBF16(uint16(i))); got != want {
			t.Fatalf("%#04x comes back as %#04x", i, got)
		}
	}
	var ties []uint16
	for _, x := range []float32{math.Float32frombits(0x3f808000), math.Float32frombits(0x3f818000), math.Float32frombits(0x3f808001), math.MaxFloat32} {
		ties = append(ties, toBF16(x))
	}
	requireSame(t, "ties", ties, []uint16{0x3f80, 0x3f82, 0x3f81, 0x7f80})
}

func TestWrongLengthsPanic(t *testing.T) {
	t.Parallel()
	f := func(n int) []float32 { return make([]float32, n) }
	m := Matrix{F32, 40, 8, make([]byte, MatrixBytes(F32, 40, 8))}
	in := newInputs(t, 1, ordinary)
	block := in.kvBlock(&generic, KVBF16, 8, 8)
	a := &Activations{}
	a.Reset(false, 2, 8)
	quantized := &Activations{}
	quantized.Reset(true, 2, 8)
	for name, call := range map[string]func(s *Set){
		"Prepare":                 func(s *Set) { _ = s.Prepare(a, 0, f(7)) },
		"Multiply short dst":      func(s *Set) { s.Multiply(f(79), 40, m, a, []int32{0, 1}, 0, 40) },
		"Multiply small stride":   func(s *Set) { s.Multiply(f(80), 39, m, a, []int32{0, 1}, 0, 40) },
		"Multiply row":            func(s *Set) { s.Multiply(f(80), 40, m, a, []int32{2}, 0, 40) },
		"Multiply negative row":   func(s *Set) { s.Multiply(f(80), 40, m, a, []int32{-1}, 0, 40) },
		"Multiply half a block":   func(s *Set) { s.Multiply(f(80), 40, m, a, []int32{0}, 16, 40) },
		"Multiply beyond the end": func(s *Set) { s.Multiply(f(80), 80, m, a, []int32{0}, 0, 64) },
		"Multiply kind":           func(s *Set) { s.Multiply(f(80), 40, m, quantized, []int32{0}, 0, 40) },
		"Multiply data":           func(s *Set) { s.Multiply(f(80), 40, Matrix{F32, 40, 8, m.Data[1:]}, a, []int32{0}, 0, 40) },
		"Multiply columns":        func(s *Set) { s.Multiply(f(80), 40, Matrix{F32, 40, 4, m.Data[:32*4*4*2]}, a, []int32{0}, 0, 40) },
		"SiLUMultiply":            func(s *Set) { s.SiLUMultiply(f(8), f(8), f(7)) },
		"RMSNorm":                 func(s *Set) { s.RMSNorm(f(8), f(7), f(8), 0) },
		"Rotate":                  func(s *Set) { s.Rotate(f(12), 8, f(4), f(4)) },
		"Rotate table":            func(s *Set) { s.Rotate(f(16), 8, f(4), f(3)) },
		"StoreKV":                 func(s *Set) { s.StoreKV(block, 64, f(8), f(8)) },
		"StoreKV value":           func(s *Set) { s.StoreKV(block, 0, f(8), f(9)) },
		"AttendBlock head":        func(s *Set) { s.AttendBlock(in.attentionTile(1, 9, 8), block, 1) },
		"AttendBlock data":        func(s *Set) { s.AttendBlock(in.attentionTile(1, 8, 8), KVBlock{KVF32, 8, 8, block.Data}, 1) },
		"AttendBlock no rows":     func(s *Set) { s.AttendBlock(in.attentionTile(0, 8, 8), block, 1) },
		"AttendBlock no keys": func(s *Set) {
			tile := in.attentionTile(3, 8, 8)
			tile.From[2] = tile.To[2]
			s.AttendBlock(tile, block, 1)
		},
		"AttendBlock query": func(s *Set) {
			tile := in.attentionTile(3, 8, 8)
			tile.Q[1] = f(7)
			s.AttendBlock(tile, block, 1)
		},
		"MergeAttention":      func(s *Set) { s.MergeAttention(in.attentionState(2, 8), in.attentionState(2, 7), 2) },
		"MergeAttention rows": func(s *Set) { s.MergeAttention(in.attentionState(2, 8), in.attentionState(2, 8), 9) },
		"Add":                 func(s *Set) { s.Add(f(8), f(9)) },
		"AddScaled":           func(s *Set) { s.AddScaled(f(8), f(9), 1) },
		"Accumulate":          func(s *Set) { _ = s.Accumulate(make([]int64, 9), f(8), 1) },
		"FromFixed":           func(s *Set) { s.FromFixed(f(8), make([]int64, 9)) },
	} {
		for _, available := range Available() {
			s, _ := Select(available)
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s (%s) does not panic", name, available)
					}
				}()
				call(s)
			}()
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		in := newInputs(t, 1, ordinary)
		x, y, z, sum := in.floats(300), in.floats(300), in.floats(300), make([]int64, 300)
		a, q := in.activations(false, 5, 100), in.activations(true, 5, 100)
		dst, rows := make([]float32, 5*70), []int32{0, 1, 2, 3, 4}
		tile, block := in.attentionTile(7, 40, 50), in.kvBlock(s, KVInt8, 40, 50)
		matrices := map[Format]Matrix{}
		for _, f := range Formats() {
			matrices[f] = in.matrix(f, 70, 100)
		}
		for name, call := range map[string]func(){
			"Multiply f32":      func() { s.Multiply(dst, 70, matrices[F32], a, rows, 0, 70) },
			"Multiply bf16":     func() { s.Multiply(dst, 70, matrices[BF16], a, rows, 0, 70) },
			"Multiply q8":       func() { s.Multiply(dst, 70, matrices[Q8], q, rows, 0, 70) },
			"Multiply fp8":      func() { s.Multiply(dst, 70, matrices[FP8], a, rows, 0, 70) },
			"Multiply q4":       func() { s.Multiply(dst, 70, matrices[Q4], q, rows, 0, 70) },
			"Multiply mxfp4":    func() { s.Multiply(dst, 70, matrices[MXFP4], q, rows, 0, 70) },
			"Prepare":           func() { _ = s.Prepare(a, 1, x[:100]) },
			"Prepare quantized": func() { _ = s.Prepare(q, 1, x[:100]) },
			"SiLUMultiply":      func() { s.SiLUMultiply(x, x, y) },
			"RMSNorm":           func() { s.RMSNorm(x, x, y, 1e-6) },
			"Rotate":            func() { s.Rotate(x, 100, y[:50], z[:50]) },
			"StoreKV":           func() { s.StoreKV(block, 5, x[:40], y[:50]) },
			"AttendBlock":       func() { s.AttendBlock(tile, block, 1) },
			"Softmax":           func() { s.Softmax(x) },
			"Divide":            func() { s.Divide(x, 2) },
			"Add":               func() { s.Add(x, y) },
			"AddScaled":         func() { s.AddScaled(x, y, 2) },
			"Accumulate":        func() { _ = s.Accumulate(sum, y, 1) },
			"FromFixed":         func() { s.FromFixed(x, sum) },
		} {
			if n := testing.AllocsPerRun(5, call); n != 0 {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
	})
}

// While a goroutine does nothing but call a kernel, the collector must be able to stop it. A kernel that is never stopped
// hangs this test; how long a stop takes is bounded by construction (callBytes, callElements and the test of noinline).
func TestKernelsCanBeStopped(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		in := newInputs(t, 1, ordinary)
		const outputs, columns = 64, 20000
		calls := map[string]func(){}
		for _, f := range Formats() {
			m, a := in.matrix(f, outputs, columns), in.activations(f.Quantized(), 1, columns)
			dst := make([]float32, outputs)
			calls["Multiply "+f.String()] = func() { s.Multiply(dst, outputs, m, a, []int32{0}, 0, outputs) }
		}
		x, y, z := in.floats(columns), in.floats(columns), in.floats(columns)
		sum := make([]int64, columns)
		q := in.activations(true, 1, columns)
		calls["Prepare"] = func() { _ = s.Prepare(q, 0, y) }
		calls["SiLUMultiply"] = func() { s.SiLUMultiply(x, y, z) }
		calls["RMSNorm"] = func() { s.RMSNorm(x, y, z, 1) }
		calls["Rotate"] = func() { s.Rotate(x, columns, y[:columns/2], z[:columns/2]) }
		tile, block := in.attentionTile(AttentionRows, 500, 500), in.kvBlock(s, KVBF16, 500, 500)
		calls["AttendBlock"] = func() { s.AttendBlock(tile, block, 0.1) }
		calls["Softmax"] = func() { s.Softmax(x) }
		calls["AddScaled"] = func() { s.AddScaled(x, y, 0.5) }
		calls["Accumulate"] = func() { clear(sum); _ = s.Accumulate(sum, y, 1) }
		for name, call := range calls {
			var stop atomic.Bool
			started, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				call()
				close(started)
				for !stop.Load() {
					call()
				}
			}()
			<-started
			for range 3 {
				runtime.GC()
			}
			stop.Store(true)
			<-ended
			if t.Failed() {
				t.Log(name)
			}
		}
	})
}
