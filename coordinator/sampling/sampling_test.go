package sampling

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/kernels"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

var (
	nan = float32(math.NaN())
	inf = float32(math.Inf(1))
)

func TestGreedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{1, 3, 2}, 1},
		{[]float32{2, 3, 3}, 1},
		{[]float32{nan, -5, nan}, 1},
		{[]float32{nan, nan}, 0},
		{nil, 0},
		{[]float32{-inf, -inf}, 0},
		{[]float32{nan, -inf, -inf}, 1},
		{[]float32{1, inf, inf}, 1},
		{[]float32{0, float32(math.Copysign(0, -1))}, 0},
		{[]float32{float32(math.Copysign(0, -1)), 0}, 0},
	} {
		if got := (Params{}).Sample(c.logits, 7); got != c.want {
			t.Errorf("greedy of %v = %d, want %d", c.logits, got, c.want)
		}
		// One candidate leaves nothing to chance.
		if got := (Params{Temperature: 2, TopK: 1, Seed: 3}).Sample(c.logits, 7); got != c.want {
			t.Errorf("top-k 1 of %v = %d, want %d", c.logits, got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		params Params
		want   string // part of the error; "" is valid
	}{
		{Params{}, ""},
		{Params{Temperature: 0.7, TopK: 40, TopP: 0.9, MinP: 0.05, Seed: 1}, ""},
		{Params{Temperature: -1}, "temperature -1"},
		{Params{Temperature: nan}, "temperature NaN"},
		{Params{Temperature: inf}, "temperature +Inf"},
		{Params{TopK: -1}, "top-k -1"},
		{Params{TopP: 1.5}, "top-p 1.5"},
		{Params{TopP: nan}, "top-p NaN"},
		{Params{MinP: -0.1}, "min-p -0.1"},
	} {
		err := c.params.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.params, err, c.want)
		}
	}
}

// reference is the rule in its plainest form: sort everything, filter, draw.
func reference(p Params, logits []float32, u float64) int32 {
	type token struct {
		id     int
		logit  float32
		weight float32
	}
	var all []token
	for i, x := range logits {
		if x == x {
			all = append(all, token{i, x, 0})
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.SortStableFunc(all, func(a, b token) int {
		switch {
		case a.logit > b.logit:
			return -1
		case a.logit < b.logit:
			return 1
		}
		return 0
	})
	if p.TopK > 0 && p.TopK < len(all) {
		all = all[:p.TopK]
	}
	total := 0.0
	for i := range all {
		all[i].weight = 1
		if all[i].logit != all[0].logit {
			all[i].weight = kernels.Exp((all[i].logit - all[0].logit) / p.Temperature)
		}
		total += float64(all[i].weight)
	}
	if p.TopP > 0 && p.TopP < 1 {
		sum, n := 0.0, 0
		for n < len(all) && (n == 0 || sum < float64(p.TopP)*total) {
			sum += float64(all[n].weight)
			n++
		}
		all = all[:n]
	}
	all = slices.DeleteFunc(all, func(x token) bool { return x.weight < p.MinP })
	total = 0
	for _, x := range all {
		total += float64(x.weight)
	}
	sum := 0.0
	chosen := all[0].id
	for _, x := range all {
		if x.weight > 0 {
			chosen = x.id
		}
		if sum += float64(x.weight); sum > u*total {
			break
		}
	}
	return int32(chosen)
}

// logitsOf draws logits that are multiples of 1/8 with many ties: their weights at temperature 1 add up differently in another
// order only far below the draw's resolution.
func logitsOf(t *rapid.T) []float32 {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float32 {
		switch rapid.IntRange(0, 30).Draw(t, "kind") {
		case 0:
			return nan
		case 1:
			return -inf
		case 2:
			return inf
		case 3:
			return 1e30
		}
		return float32(rapid.IntRange(-40, 40).Draw(t, "eighths")) / 8
	}), 1, 60).Draw(t, "logits")
}

func paramsOf(t *rapid.T) Params {
	p := Params{
		Temperature: rapid.SampledFrom([]float32{1e-30, 0.1, 0.7, 1, 2, 1e30}).Draw(t, "temperature"),
		TopK:        rapid.SampledFrom([]int{0, 0, 1, 2, 5, 1000}).Draw(t, "top-k"),
		TopP:        rapid.SampledFrom([]float32{0, 1, 1e-9, 0.3, 0.9, 0.999}).Draw(t, "top-p"),
		MinP:        rapid.SampledFrom([]float32{0, 0, 0.05, 0.5, 1}).Draw(t, "min-p"),
		Seed:        rapid.Uint64().Draw(t, "seed"),
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAgainstReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		logits, p := logitsOf(t), paramsOf(t)
		position := rapid.IntRange(0, 1<<20).Draw(t, "position")
		before := fmt.Sprint(logits)
		got := p.Sample(logits, position)
		if want := reference(p, logits, uniform(p.Seed, position)); got != want {
			t.Fatalf("%+v at %d: %d, want %d", p, position, got, want)
		}
		if again := p.Sample(logits, position); again != got {
			t.Fatalf("%d, then %d", got, again)
		}
		if fmt.Sprint(logits) != before {
			t.Fatal("the logits were changed")
		}
	})
}

// A filter that lets everything through is the same as none.
func TestFiltersOff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		logits := logitsOf(t)
		p := Params{Temperature: 1, Seed: rapid.Uint64().Draw(t, "seed")}
		want := p.Sample(logits, 3)
		for _, q := range []Params{
			{Temperature: 1, TopK: len(logits), Seed: p.Seed}, {Temperature: 1, TopP: 1, Seed: p.Seed}, {Temperature: 1, TopK: 1 << 40, TopP: 1, Seed: p.Seed},
		} {
			if got := q.Sample(logits, 3); got != want {
				t.Fatalf("%+v: %d, without filters %d", q, got, want)
			}
		}
	})
}

// The frequencies of many draws are the softmax: a chi-squared test on fixed seeds, so it passes always or never.
func TestFrequencies(t *testing.T) {
	t.Parallel()
	logits := []float32{0, 2, 1, -1, 2, 0.5, nan, -inf}
	const draws = 20_000
	for _, p := range []Params{
		{Temperature: 1}, {Temperature: 1, Seed: 1}, {Temperature: 0.5, Seed: 2}, {Temperature: 3, Seed: 3},
		{Temperature: 1, TopK: 3, Seed: 4}, {Temperature: 1, TopP: 0.8, Seed: 5}, {Temperature: 1, MinP: 0.2, Seed: 6},
	} {
		keep := map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true, 5: true}
		switch {
		case p.TopK > 0, p.TopP > 0: // the two best have 0.72 of the total, the three best 0.85
			keep = map[int]bool{1: true, 4: true, 2: true}
		case p.MinP > 0: // e^-1 = 0.37, e^-1.5 = 0.22, e^-2 = 0.14
			keep = map[int]bool{1: true, 4: true, 2: true, 5: true}
		}
		total := 0.0
		expected := make([]float64, len(logits))
		for i := range logits {
			if keep[i] {
				expected[i] = math.Exp(float64(logits[i]) / float64(p.Temperature))
				total += expected[i]
			}
		}
		counts := make([]float64, len(logits))
		for position := range draws {
			counts[p.Sample(logits, position)]++
		}
		chi, freedom := 0.0, -1
		for i, n := range counts {
			e := expected[i] / total * draws
			if e == 0 {
				if n > 0 {
					t.Errorf("%+v: token %d was drawn %v times", p, i, n)
				}
				continue
			}
			freedom++
			chi += (n - e) * (n - e) / e
		}
		// Mean freedom, variance 2·freedom: five standard deviations.
		if limit := float64(freedom) + 5*math.Sqrt(2*float64(freedom)); chi > limit {
			t.Errorf("%+v: chi-squared %.1f with %d degrees of freedom: counts %v", p, chi, freedom, counts)
		}
	}
}

// The numbers are part of the promise that a generation continues with the same tokens on another machine and after an upgrade.
func TestUniform(t *testing.T) {
	t.Parallel()
	// The first outputs of SplitMix64 with seed 0, from the authors' code.
	for i, want := range []uint64{0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F} {
		if got := mix(uint64(i+1) * 0x9E3779B97F4A7C15); got != want {
			t.Errorf("SplitMix64 output %d = %#x, want %#x", i, got, want)
		}
	}
	for _, c := range []struct {
		seed     uint64
		position int
		want     float64
	}{{0, 0, 0.6524484863740322}, {0, 1, 0.7012121095215252}, {1, 0, 0.36818951565166946}, {math.MaxUint64, 1 << 40, 0.5440041384053076}} {
		if got := uniform(c.seed, c.position); got != c.want {
			t.Errorf("uniform(%d, %d) = %v, want %v", c.seed, c.position, got, c.want)
		}
	}
	sum := 0.0
	for seed := range uint64(1000) {
		for position := range 100 {
			u := uniform(seed, position)
			if u < 0 || u >= 1 {
				t.Fatalf("uniform(%d, %d) = %v", seed, position, u)
			}
			sum += u
		}
	}
	if mean := sum / 100_000; math.Abs(mean-0.5) > 5*0.2887/math.Sqrt(100_000) {
		t.Errorf("mean %v", mean)
	}
}

func BenchmarkSample(b *testing.B) {
	logits := make([]float32, 151_936)
	for i := range logits {
		logits[i] = float32(uniform(1, i)*20 - 10)
	}
	logits[77] = 18
	for _, p := range []Params{{}, {Temperature: 1}, {Temperature: 0.7, TopK: 40}, {Temperature: 0.7, TopP: 0.9}, {Temperature: 0.7, TopK: 40, TopP: 0.9, MinP: 0.05}} {
		b.Run(fmt.Sprintf("temperature=%v,top-k=%d,top-p=%v,min-p=%v", p.Temperature, p.TopK, p.TopP, p.MinP), func(b *testing.B) {
			for i := range b.N {
				p.Sample(logits, i)
			}
		})
	}
}
