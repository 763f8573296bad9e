package engine_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
)

func policy(t testing.TB, text string) budget.Policy {
	t.Helper()
	p, err := budget.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// everyThird experts are in memory.
func everyThird(layer int, expert int32) bool { return (layer+int(expert))%3 == 0 }

// manyExperts is a model whose rows choose 4 of 16 experts.
func manyExperts(t testing.TB) *checkpoint.Checkpoint {
	return synthetic(t, "qwen3_moe", func(s *synth.Spec) { s.Experts, s.TopK, s.DenseLayers, s.SparseStep = 16, 4, nil, 1 })
}

// Whatever the policy: prefill has the bits that it has without a budget, alone and in company of rows that are cut.
func TestPrefillIsNotCut(t *testing.T) {
	t.Parallel()
	cp := manyExperts(t)
	x := newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1)
	x.resident = everyThird
	tokens := randomTokens(12, 512, 7)
	run := func(p budget.Policy) (prefill, company, decode []float32, totals engine.Totals) {
		e := newEngine(t, cp, x, kernels.Q8, func(o *engine.Options) { o.Budget = p })
		first, second := newSequence(t, e), newSequence(t, e)
		prefill = step(t, e, first, tokens[:8], budget.Prefill, engine.AllLogits)
		out, err := e.Step(t.Context(), []engine.Chunk{
			{Sequence: first, Tokens: tokens[8:9], Phase: budget.Decode, Logits: engine.AllLogits},
			{Sequence: second, Tokens: tokens[9:], Phase: budget.Prefill, Logits: engine.AllLogits},
		})
		if err != nil || out[0].Err != nil || out[1].Err != nil {
			t.Fatal(err, out)
		}
		return prefill, out[1].Logits, out[0].Logits, e.Totals()
	}
	wantPrefill, wantCompany, wantDecode, _ := run(budget.Policy{})
	part := int64(kernels.ExpertShape{Format: kernels.Q8, Hidden: cp.Config().Hidden, Intermediate: cp.Config().ExpertIntermediate}.Bytes())
	for _, text := range []string{"1", "bytes=1", "mass=0.6", "topp=0.3", "2,fill=8", "topp=0.5,mass=0.2,bytes=1MiB,count=3"} {
		p := policy(t, text)
		prefill, company, decode, totals := run(p)
		mustEqualBits(t, prefill, wantPrefill, 512)
		mustEqualBits(t, company, wantCompany, 512)
		if equalBits(decode, wantDecode) || totals.LostChoices == 0 || totals.CutRows == 0 && totals.FilledChoices == 0 {
			t.Errorf("%s: nothing was cut: %+v", text, totals)
		}
		moe := uint64(len(cp.Config().Layers))
		if totals.Shares.Rows != moe || totals.Shares.Most <= 0 || totals.Shares.Most > 1 || totals.DroppedBytes > int64(totals.DroppedExperts)*part ||
			totals.DroppedExperts > totals.LostChoices {
			t.Errorf("%s: %+v", text, totals)
		}
	}
}

// layerCall is what the experts of a layer were asked for.
type layerCall struct {
	Layer       int
	Choices     []router.Choice
	Cut, Filled []int32
}

// The same tokens with the same residency give the same selection, bit for bit: on other kernels and threads, and as a check of a draft.
func TestSameSelection(t *testing.T) {
	t.Parallel()
	cp := manyExperts(t)
	tokens := randomTokens(12, 512, 3)
	for _, text := range []string{"3", "bytes=20KiB", "mass=0.3", "topp=0.6", "2,fill", "topp=0.7,mass=0.2,count=4,fill=12"} {
		var first []layerCall
		for i, kernelNames := range kernels.Available() {
			for _, phase := range []budget.Phase{budget.Decode, budget.Verify} {
				x := newExperts(t, cp, selectSet(t, kernelNames), kernels.Q8, 1)
				x.resident = everyThird
				var calls []layerCall
				x.observe = func(c *engine.ExpertCall) {
					calls = append(calls, layerCall{c.Layer, cloneChoices(c.Choices), slices.Clone(c.Cut), slices.Clone(c.Filled)})
				}
				e := newEngine(t, cp, x, kernels.Q8, func(o *engine.Options) {
					o.Budget, o.Team = policy(t, text), newTeam(t, 1+i%3)
				})
				s := newSequence(t, e)
				step(t, e, s, tokens[:6], budget.Prefill, engine.LastLogits)
				step(t, e, s, tokens[6:], phase, engine.AllLogits)
				if first == nil {
					first = calls
				}
				if d := cmp.Diff(first, calls); d != "" {
					t.Errorf("%s, %s, phase %d: %s", text, kernelNames, phase, d)
				}
			}
		}
	}
}

// Two rows of one expert each, two different misses, a budget of one: each row keeps its expert, one of them is rescued.
func TestTwoMissesOfOne(t *testing.T) {
	t.Parallel()
	cp := synthetic(t, "qwen3_moe", func(s *synth.Spec) {
		s.Layers, s.Experts, s.TopK, s.DenseLayers, s.SparseStep, s.NormalizeTopK = 1, 16, 1, nil, 1, false
	})
	x := newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1)
	var chosen, computed []router.Choice
	x.observe = func(c *engine.ExpertCall) { computed = cloneChoices(c.Choices) }
	e := newEngine(t, cp, x, kernels.Q8, func(o *engine.Options) {
		o.Budget = policy(t, "1")
		o.Observer = func(_ int, c []router.Choice) { chosen = cloneChoices(c) }
	})
	for seed := range uint64(20) {
		tokens := randomTokens(2, 512, seed)
		before := e.Totals()
		out, err := e.Step(t.Context(), []engine.Chunk{
			{Sequence: newSequence(t, e), Tokens: tokens[:1], Phase: budget.Decode},
			{Sequence: newSequence(t, e), Tokens: tokens[1:], Phase: budget.Decode},
		})
		if err != nil || out[0].Err != nil || out[1].Err != nil {
			t.Fatal(err, out)
		}
		if chosen[0].Experts[0] == chosen[1].Experts[0] {
			continue
		}
		if d := cmp.Diff(chosen, computed); d != "" {
			t.Errorf("a row lost its only expert: %s", d)
		}
		if used := e.Totals().Since(&before); used.RescuedRows != 1 || used.DroppedExperts != 0 || used.Shares.Rows != 2 || used.Shares.Most != 0 {
			t.Errorf("%+v", used)
		}
		return
	}
	t.Fatal("no two tokens chose different experts")
}

// With fill a row has as many experts as before where its best are in memory, and all that it takes are in memory and among its best.
func TestFilledExpertsAreResident(t *testing.T) {
	t.Parallel()
	cp := manyExperts(t)
	x := newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1)
	x.resident = everyThird
	var chosen []router.Choice
	taken := 0
	x.observe = func(c *engine.ExpertCall) {
		for row, choice := range c.Choices {
			if len(choice.Experts) > 4 || !slices.IsSorted(choice.Experts) {
				t.Errorf("layer %d, row %d: experts %v", c.Layer, row, choice.Experts)
			}
			for _, id := range choice.Experts {
				if slices.Contains(chosen[row].Experts, id) {
					continue
				}
				taken++
				if !everyThird(c.Layer, id) {
					t.Errorf("layer %d, row %d takes expert %d, which is not in memory", c.Layer, row, id)
				}
				if slices.Contains(c.Cut, id) {
					t.Errorf("layer %d: expert %d is cut and computed", c.Layer, id)
				}
			}
		}
		for _, id := range c.Filled {
			if !everyThird(c.Layer, id) {
				t.Errorf("layer %d: expert %d is filled", c.Layer, id)
			}
		}
	}
	run := func(text string) (used engine.Totals) {
		e := newEngine(t, cp, x, kernels.Q8, func(o *engine.Options) {
			o.Budget = policy(t, text)
			o.Observer = func(_ int, c []router.Choice) { chosen = cloneChoices(c) }
		})
		for _, token := range randomTokens(8, 512, 1) {
			step(t, e, newSequence(t, e), []int32{token}, budget.Decode, engine.LastLogits)
		}
		return e.Totals()
	}
	few, many := run("1,fill=6"), run("1,fill=16")
	if many.FilledChoices != taken-few.FilledChoices || few.FilledChoices >= many.FilledChoices || few.FilledChoices == 0 {
		t.Errorf("%d and %d taken, %d seen", few.FilledChoices, many.FilledChoices, taken)
	}
	if many.FilledChoices != many.LostChoices { // a third of 16 are more than 4
		t.Errorf("with all experts as candidates %d were lost and %d taken", many.LostChoices, many.FilledChoices)
	}
}
