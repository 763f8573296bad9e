package evaluation

import (
	"math"
	"slices"
	"testing"
)

// logits are ln p + shift, which softmax ignores.
func logits(shift float64, p ...float64) []float32 {
	l := make([]float32, len(p))
	for i, v := range p {
		l[i] = float32(math.Log(v) + shift)
	}
	return l
}

// add counts one position.
func add(d *Divergence, run, reference []float32, next int32) {
	var p prediction
	p.set(reference, next)
	d.add(&p, run)
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestDivergence(t *testing.T) {
	t.Parallel()
	d := &Divergence{}
	add(d, logits(3, 0.5, 0.25, 0.25), logits(-7, 0.25, 0.5, 0.25), 0) // another top
	add(d, logits(0, 0.25, 0.5, 0.25), logits(0, 0.25, 0.5, 0.25), 1)  // equal
	add(d, logits(1, 0.5, 0.25, 0.25), logits(2, 0.75, 0.125, 0.125), 2)
	add(d, []float32{1, 1, 0}, []float32{2, 2, 0}, 2) // of equals the lower id is the top
	e, e2 := math.E, math.E*math.E
	fourth := 2*e2/(2*e2+1)*math.Log(e2/(2*e2+1)*(2*e+1)/e) + 1/(2*e2+1)*math.Log(1/(2*e2+1)*(2*e+1))
	klds := []float64{0.25 * math.Ln2, 0, 0.75*math.Log(1.5) - 0.25*math.Ln2, fourth}
	for i, want := range klds {
		near(t, "divergence", d.KLD[i], want)
	}
	slices.Sort(klds)
	slices.Sort(d.KLD)
	near(t, "mean", d.MeanKLD(), (klds[0]+klds[1]+klds[2]+klds[3])/4)
	near(t, "median", d.QuantileKLD(0.5), (klds[1]+klds[2])/2)
	near(t, "smallest", d.QuantileKLD(0), klds[0])
	near(t, "largest", d.QuantileKLD(1), klds[3])
	last := 1/(2*e+1) - 1/(2*e2+1)
	near(t, "rms dp", d.RMSDeltaP(), math.Sqrt((0.25*0.25+0.125*0.125+last*last)/4))
	near(t, "same top", d.SameTopP(), 0.75)
	near(t, "nll", d.Run.NLL, -math.Log(0.5)-math.Log(0.5)-math.Log(0.25)+math.Log(2*e+1))
	near(t, "nll of the reference", d.Reference.NLL, -math.Log(0.25)-math.Log(0.5)-math.Log(0.125)+math.Log(2*e2+1))
	if d.Run.Tokens != 4 || d.Reference.Tokens != 4 {
		t.Errorf("%d and %d tokens", d.Run.Tokens, d.Reference.Tokens)
	}
}

// A token that one of the models excludes all but wholly has no NaN in any measure.
func TestDivergenceOfUnlikelyTokens(t *testing.T) {
	t.Parallel()
	d := &Divergence{}
	add(d, []float32{-3e38, 0, 0}, []float32{0, 0, -3e38}, 2)
	if kld := d.MeanKLD(); !(kld > 1e37) || math.IsInf(kld, 0) {
		t.Errorf("divergence %v", kld)
	}
	near(t, "rms dp", d.RMSDeltaP(), 0.5)
}
