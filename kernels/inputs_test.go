package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// eachImplementation runs a test for every implementation of this build but the reference. One that the CPU lacks is skipped, since no machine
// has them all; AMX is promised where it is emulated (.ci/amxtrap).
func eachImplementation(t *testing.T, test func(t *testing.T, s *Set)) {
	t.Helper()
	for _, name := range Known() {
		if name == generic.name {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s, err := Select(name)
			if err != nil {
				if os.Getenv("AMXTRAP") != "" && name == "amx" {
					t.Fatal(err)
				}
				t.Skipf("NOT TESTED: %v", err)
			}
			test(t, s)
		})
	}
}

// ownCleanup is a test whose cleanups run at the end of a part of it: one that draws thousands of inputs must not hold the memory of all
// of them, as each guarded buffer is a mapping of its own and a process may have about 65000.
type ownCleanup struct {
	testing.TB
	cleanups []func()
}

func (o *ownCleanup) Cleanup(f func()) { o.cleanups = append(o.cleanups, f) }

// part runs a part of a test, then its cleanups.
func part(t testing.TB, run func(t testing.TB)) {
	t.Helper()
	o := &ownCleanup{TB: t}
	defer func() {
		for _, f := range slices.Backward(o.cleanups) {
			f()
		}
	}()
	run(o)
}

// inputs draws the same values from the same seed, into memory that ends (or begins) at an inaccessible page.
type inputs struct {
	t       testing.TB
	random  *rand.Rand
	kind    valueKind
	atStart bool
}

func newInputs(t testing.TB, seed uint64, kind valueKind) *inputs {
	return &inputs{t, rand.New(rand.NewPCG(seed, 7)), kind, seed%2 == 1}
}

// valueKind is what float32 values look like.
type valueKind uint8

const (
	ordinary  valueKind = iota // about normal distributed
	sparse                     // many zeros of both signs
	denormal                   // below or around the smallest normal number
	huge                       // near the largest number: products overflow
	wide                       // any exponent
	short                      // few mantissa bits: exact ties when rounding
	notFinite                  // ordinary, some infinities and NaNs
	valueKinds
)

func (k valueKind) String() string {
	return [...]string{"ordinary", "sparse", "denormal", "huge", "wide", "short", "notFinite"}[k]
}

func (in *inputs) float() float32 {
	r := in.random
	x := float32(r.NormFloat64())
	switch in.kind {
	case sparse:
		if r.IntN(2) == 0 {
			return math.Float32frombits(r.Uint32() & 0x80000000)
		}
	case denormal:
		return math.Float32frombits(r.Uint32() & 0x81ffffff)
	case huge:
		return math.Float32frombits(r.Uint32()&0x80ffffff | 0x7e000000 | r.Uint32()&1<<23)
	case wide:
		x = math.Float32frombits(r.Uint32())
		if !finiteGeneric([]float32{x}) {
			return 1
		}
	case short:
		return float32(r.IntN(512)-256) / 8
	case notFinite:
		switch r.IntN(12) {
		case 0:
			return float32(math.Inf(1 - 2*r.IntN(2)))
		case 1:
			return math.Float32frombits(r.Uint32() | 0x7f800001)
		}
	}
	return x
}

// buffer is n elements of guarded memory.
func buffer[T any](in *inputs, n int) []T { return guarded[T](in.t, n, in.atStart) }

func (in *inputs) floats(n int) []float32 {
	x := buffer[float32](in, n)
	for i := range x {
		x[i] = in.float()
	}
	return x
}

// matrix packs random weights. Those of a kind that a format can't hold are scaled down.
func (in *inputs) matrix(f Format, outputs, columns int) Matrix {
	m := Matrix{f, outputs, columns, buffer[byte](in, MatrixBytes(f, outputs, columns))}
	err := Pack(m, func(_ int, dst []float32) {
		for i := range dst {
			dst[i] = in.float()
			if in.kind != notFinite {
				dst[i] = min(max(dst[i], -0x1p127), 0x1p127)
			}
		}
	})
	if err != nil {
		in.t.Fatal(err)
	}
	return m
}

// activations prepares random rows with the reference.
func (in *inputs) activations(quantized bool, rows, columns int) *Activations {
	a := &Activations{Rows: rows, Columns: columns, Quantized: quantized}
	if quantized {
		a.Codes = buffer[int8](in, rows*PaddedColumns(columns))
		a.Scales = buffer[float32](in, rows*Groups(columns))
	} else {
		a.Values = buffer[float32](in, rows*columns)
	}
	for r := range rows {
		if err := generic.Prepare(a, r, in.floats(columns)); err != nil {
			in.t.Fatal(err)
		}
	}
	return a
}

// sameFloat is equality of bits, all NaNs being equal.
func sameFloat(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// requireSame compares results element by element.
func requireSame[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	same := func(a, b T) bool {
		if x, ok := any(a).(float32); ok {
			return sameFloat(x, any(b).(float32))
		}
		return a == b
	}
	if slices.EqualFunc(got, want, same) {
		return
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	different, first := 0, -1
	for i := range got {
		if !same(got[i], want[i]) {
			if different++; first < 0 {
				first = i
			}
		}
	}
	t.Fatalf("%s: %d of %d elements differ, first [%d]: %s, want %s", what, different, len(got), first, show(got[first]), show(want[first]))
}

func show(v any) string {
	if x, ok := v.(float32); ok {
		return fmt.Sprintf("%v (%#08x)", x, math.Float32bits(x))
	}
	return fmt.Sprint(v)
}
