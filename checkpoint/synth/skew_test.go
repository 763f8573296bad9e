package synth_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
)

// rowNorms gives the norm of each row of a layer's router.
func rowNorms(t *testing.T, c *checkpoint.Checkpoint, layer int) []float64 {
	t.Helper()
	router := mustTensor(t, c, c.Config().Layer(layer).Router)
	values, columns := router.Float32(), router.Shape[1]
	norms := make([]float64, router.Shape[0])
	for i := range norms {
		for _, v := range values[i*columns : (i+1)*columns] {
			norms[i] += float64(v) * float64(v)
		}
		norms[i] = math.Sqrt(norms[i])
	}
	return norms
}

func TestSkewedRouters(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a minute of drawing weights under the race detector")
	}
	t.Parallel()
	for _, dtype := range []checkpoint.DType{checkpoint.BF16, checkpoint.F16, checkpoint.F32} {
		s := synth.Tiny("qwen3_moe")
		s.DType, s.Experts, s.Hidden = dtype, 64, 1024
		flat := write(t, s)
		s.RouterSkew = 1
		skewed := write(t, s)
		s.Seed++
		other := write(t, s)

		all := [][]float64{rowNorms(t, skewed, 0), rowNorms(t, skewed, 2), rowNorms(t, other, 0)}
		for _, norms := range all {
			// Log-normal: the logarithms have the deviation that was asked for, and the whole keeps its mean square.
			var mean, squares, power float64
			for _, n := range norms {
				mean += math.Log(n) / 64
				power += n * n / 64
			}
			for _, n := range norms {
				squares += (math.Log(n) - mean) * (math.Log(n) - mean) / 64
			}
			if math.Abs(math.Sqrt(squares)-1) > 0.06 {
				t.Errorf("%s: the norms' logarithms deviate by %v, want 1", dtype, math.Sqrt(squares))
			}
			flatPower := 0.0
			for _, n := range rowNorms(t, flat, 0) {
				flatPower += n * n / 64
			}
			if math.Abs(power/flatPower-1) > 0.1 {
				t.Errorf("%s: mean square %v, without skew %v", dtype, power, flatPower)
			}
		}
		if order(all[0]) == order(all[1]) || order(all[0]) == order(all[2]) {
			t.Errorf("%s: two routers favour the same experts", dtype)
		}
		for _, name := range flat.Names() {
			same := string(mustTensor(t, flat, name).Data) == string(mustTensor(t, skewed, name).Data)
			if isRouter := name == flat.Config().Layer(0).Router || name == flat.Config().Layer(2).Router; same == isRouter {
				t.Errorf("%s: %s: the same with and without skew: %v", dtype, name, same)
			}
		}
	}
}

// order gives the eight rows of largest norm, for comparison.
func order(norms []float64) string {
	rows := make([]byte, len(norms))
	for i := range rows {
		rows[i] = byte(i)
	}
	slices.SortFunc(rows, func(a, b byte) int {
		if norms[a] > norms[b] {
			return -1
		}
		return 1
	})
	return string(rows[:8])
}

// The bytes of skewed routers are fixed as well.
func TestSkewedBytesAreFixed(t *testing.T) {
	t.Parallel()
	sums := map[checkpoint.DType]string{checkpoint.BF16: "ba3e63384d163a23", checkpoint.F16: "037ddb165cef628d", checkpoint.F32: "e7d11d738b3d3ed3"}
	for dtype, want := range sums {
		s := synth.Tiny("mixtral")
		s.DType, s.RouterSkew = dtype, 0.75
		c := write(t, s)
		sum := sha256.Sum256(mustTensor(t, c, c.Config().Layer(1).Router).Data)
		if got := hex.EncodeToString(sum[:8]); got != want {
			t.Errorf("%s: sum %s, want %s", dtype, got, want)
		}
	}
}

func TestSkewRefused(t *testing.T) {
	t.Parallel()
	for _, skew := range []float64{-0.1, 4.1, math.NaN(), math.Inf(1)} {
		s := synth.Tiny("mixtral")
		s.RouterSkew = skew
		if _, _, err := s.Size(); err == nil || !strings.Contains(err.Error(), "must be from 0 to 4") {
			t.Errorf("skew %v: %v", skew, err)
		}
	}
}
