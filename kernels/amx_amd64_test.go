//go:build !purego

package kernels

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
	"pgregory.net/rapid"
)

// requireAMX skips where there is none: .ci/amxtrap runs these tests with an emulated unit, and there they must run.
func requireAMX(t *testing.T) {
	t.Helper()
	if _, err := Select("amx"); err != nil {
		if os.Getenv("AMXTRAP") != "" {
			t.Fatal(err)
		}
		t.Skipf("NOT TESTED: %v (.ci/amxtrap emulates it)", err)
	}
}

// tilesOnly is the implementation that takes tiles for any number of rows.
func tilesOnly() *Set {
	s := amx
	s.name = "tiles"
	s.operations.multiplyQ8 = func(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
		multiplyTiles(&tilesQ8, dst, stride, m, a, rows, from, to)
	}
	s.operations.multiplyQ4 = func(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
		multiplyTiles(&tilesQ4, dst, stride, m, a, rows, from, to)
	}
	return &s
}

// Every number of rows of a tile with every length of the last group, and what else changes the path: several tiles and panels,
// pieces of rows and groups, one half of a block, gathered rows and rows that are loaded from where they are.
func TestTilesEqualReference(t *testing.T) {
	requireAMX(t)
	s := tilesOnly()
	for _, f := range []Format{Q8, Q4} {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			seed := uint64(0)
			check := func(outputs, columns, used, spaced int) {
				seed++
				rows := used
				if spaced > 0 {
					rows = (used-1)*spaced + 1
				}
				kind := valueKind(seed) % notFinite
				product{f, outputs, columns, rows, used, spaced, 0, outputs, kind, seed%3 == 0, seed}.check(t, s)
			}
			for used := 1; used <= 17; used++ {
				for columns := 1; columns <= 64; columns += 3 {
					check(1+(7*used+columns)%40, columns, used, int(seed)%3)
				}
			}
			for _, columns := range []int{65, 128, 130, 192, 1024, 1025, 1088, 2048 + 64, 4096 + 3} {
				for _, used := range []int{8, 16, 21, 33} {
					check(33, columns, used, used%2)
				}
			}
			for _, used := range []int{127, 128, 129, 260} { // more rows than one piece has
				check(20, 96, used, 0)
				check(33, 70, used, 1)
			}
		})
	}
}

func TestTilesEqualReferenceForAnyShape(t *testing.T) {
	requireAMX(t)
	s := tilesOnly()
	rapid.Check(t, func(rt *rapid.T) {
		p := drawProduct(rt)
		p.Format = rapid.SampledFrom([]Format{Q8, Q4}).Draw(rt, "integer format")
		p.Used = rapid.IntRange(1, 40).Draw(rt, "used rows")
		if p.Spaced = rapid.IntRange(0, 2).Draw(rt, "distance of rows"); p.Spaced > 0 {
			p.Rows = p.Used * p.Spaced
		}
		p.check(t, s)
	})
}

// Who may not use AMX gets the next best: with AMXTRAP=1, but nothing that emulates, the kernel's answer is a refusal.
func TestAMXRefused(t *testing.T) {
	const asked = "MOEPOOL_TEST_AMX_REFUSED"
	if os.Getenv(asked) != "" {
		best, err := Select("auto")
		if err != nil {
			t.Fatal(err)
		}
		_, err = Select("amx")
		t.Logf("refused: %v; best %s; error: %v", AMXRefused() != nil, best.Name(), err)
		return
	}
	if cpu.X86.HasAMXTile || os.Getenv("AMXTRAP") != "" {
		t.Skip("NOT TESTED: AMX can be used here")
	}
	if AMXRefused() != nil {
		t.Errorf("a CPU without AMX: %v", AMXRefused())
	}
	if _, err := Select("avx512"); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	command := exec.Command(os.Args[0], "-test.run=^TestAMXRefused$", "-test.v")
	command.Env = append(os.Environ(), asked+"=1", "AMXTRAP=1")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	want := `refused: true; best avx512; error: kernels "amx" can't be used: the kernel refuses this process the use of AMX: arch_prctl(ARCH_REQ_XCOMP_PERM): `
	if !strings.Contains(string(output), want) || !strings.Contains(string(output), "; valid here: auto, "+strings.Join(Available(), ", ")) {
		t.Errorf("got\n%s\nwant %q", output, want)
	}
}

// The control of .ci/amxtrap, which asks for it: tiles that are used before the permission was asked for end the process with SIGILL.
func TestTilesWithoutPermission(t *testing.T) {
	if os.Getenv("MOEPOOL_TEST_WITHOUT_PERMISSION") == "" {
		t.Skip("NOT TESTED: .ci/amxtrap does, it must end the process")
	}
	const columns, rows = 64, 16
	m := Matrix{Q8, BlockOutputs, columns, make([]byte, MatrixBytes(Q8, BlockOutputs, columns))}
	a := &Activations{}
	a.Reset(true, rows, columns)
	multiplyTiles(&tilesQ8, make([]float32, rows*BlockOutputs), BlockOutputs, m, a, make([]int32, rows), 0, BlockOutputs)
}
