package evaluation

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWindows(t *testing.T) {
	t.Parallel()
	got := Windows([]int32{1, 2, 3, 4, 5}, 2)
	if d := cmp.Diff([][]int32{{1, 2}, {3, 4}, {5}}, got); d != "" {
		t.Error(d)
	}
	if got := Windows(nil, 2); got != nil {
		t.Errorf("windows of nothing: %v", got)
	}
}

func TestLogSumExp(t *testing.T) {
	t.Parallel()
	logits := []float32{1000, 1000 + float32(math.Ln2), 1000 - 200}
	sum := logSumExp(logits)
	if got, want := float64(logits[1])-sum, math.Log(2.0/3); math.Abs(got-want) > 1e-4 {
		t.Errorf("ln p = %v, want %v", got, want)
	}
	if got, want := float64(logits[2])-sum, -200-math.Log(3); math.Abs(got-want) > 1e-4 {
		t.Errorf("ln p = %v, want %v", got, want)
	}
	p := Perplexity{NLL: 3 * math.Ln2, Tokens: 3}
	if v := p.Value(); math.Abs(v-2) > 1e-12 {
		t.Errorf("perplexity %v, want 2", v)
	}
}
