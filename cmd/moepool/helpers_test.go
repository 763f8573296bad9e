//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
)

func writeFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func httpGet(t testing.TB, url string) string {
	t.Helper()
	body, err := tryHTTP(url)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// tryHTTP is for servers that may not listen yet.
func tryHTTP(url string) (string, error) {
	r, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s\n%s", url, r.Status, body)
	}
	return string(body), err
}

var longModelOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(os.Getenv("XDG_CACHE_HOME"), "long") // removed by TestMain
	if err != nil {
		return "", err
	}
	spec := synth.Tiny("qwen3_moe")
	spec.MaxPositions = 8192
	return dir, synth.Write(dir, spec, nil)
})

// longModel is a small model with room for a long answer.
func longModel(t testing.TB) string {
	t.Helper()
	dir, err := longModelOnce()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func goldenInts(t testing.TB, f *checkpoint.TensorFile, name string) []int32 {
	t.Helper()
	values, err := f.Int32s(name)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func goldenFloats(t testing.TB, f *checkpoint.TensorFile, name string) []float32 {
	t.Helper()
	values, err := f.Float32s(name)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// dumpedLogits reads a --dump-logits file and checks its shape.
func dumpedLogits(t testing.TB, f *checkpoint.TensorFile, rows, vocabulary int) []float32 {
	t.Helper()
	tensor, err := f.Tensor("logits")
	if err != nil {
		t.Fatal(err)
	}
	if tensor.DType != checkpoint.F32 || len(tensor.Shape) != 2 || tensor.Shape[0] != rows || tensor.Shape[1] != vocabulary {
		t.Fatalf("logits are %s %v, want F32 [%d %d]", tensor.DType, tensor.Shape, rows, vocabulary)
	}
	return tensor.Float32()
}

func largestDifference(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	worst := 0.0
	for i := range a {
		worst = max(worst, math.Abs(float64(a[i])-float64(b[i])))
	}
	return worst
}

func mustUnmarshal(t testing.TB, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
}

// tokensOf is how long an answer must be in which something happens: shorter under the race detector, which computes far slower.
func tokensOf(n int) string {
	if underRace {
		n /= 4
	}
	return strconv.Itoa(n)
}
