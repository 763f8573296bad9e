package engine_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/kernels"
)

// A chunk that can't be computed fails alone; a step that makes no sense fails as a whole and changes nothing.
func TestValidation(t *testing.T) {
	t.Parallel()
	cp := synthetic(t, "mixtral", nil)
	x := newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1)
	small := func(o *engine.Options) { o.Context = 8 }
	e, other := newEngine(t, cp, x, kernels.Q8, small), newEngine(t, cp, x, kernels.Q8, small)
	long, good := newSequence(t, e), newSequence(t, e)
	step(t, e, long, []int32{1, 2, 3, 4, 5}, budget.Prefill, engine.NoLogits)
	for _, test := range []struct {
		tokens []int32
		want   string
	}{
		{[]int32{1, 2, 3, 4}, "5 positions and 4 more are 9, but the context has 8"},
		{[]int32{1, 512}, "token 512: ids are from 0 to 511"},
		{[]int32{-1}, "token -1: ids are from 0 to 511"},
		{nil, "a chunk without tokens"},
	} {
		length := good.Length()
		out, err := e.Step(t.Context(), []engine.Chunk{{Sequence: long, Tokens: test.tokens}, {Sequence: good, Tokens: []int32{9}}})
		if err != nil {
			t.Fatal(err)
		}
		if out[0].Err == nil || out[0].Err.Error() != test.want || long.Length() != 5 {
			t.Errorf("tokens %v: %v, length %d", test.tokens, out[0].Err, long.Length())
		}
		if out[1].Err != nil || len(out[1].Logits) != 512 || good.Length() != length+1 {
			t.Errorf("tokens %v: the other sequence failed: %v", test.tokens, out[1].Err)
		}
	}
	var tooLong *engine.ContextError
	out, err := e.Step(t.Context(), []engine.Chunk{{Sequence: long, Tokens: []int32{1, 2, 3, 4}}})
	if err != nil || !errors.As(out[0].Err, &tooLong) || *tooLong != (engine.ContextError{Length: 5, New: 4, Context: 8}) {
		t.Errorf("%v, %+v", err, out)
	}

	closed := newSequence(t, e)
	closed.Close()
	for _, test := range []struct {
		first, second *engine.Sequence
		want          string
	}{
		{good, good, "chunk 1: its sequence is in the step twice"},
		{newSequence(t, other), good, "chunk 0: its sequence is not of this engine"},
		{good, nil, "chunk 1: its sequence is not of this engine"},
		{good, closed, "chunk 1: sequence: closed"},
	} {
		length := good.Length()
		_, err := e.Step(t.Context(), []engine.Chunk{{Sequence: test.first, Tokens: []int32{1}}, {Sequence: test.second, Tokens: []int32{1}}})
		if err == nil || err.Error() != test.want || good.Length() != length {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
	if out, err := e.Step(t.Context(), nil); err != nil || len(out) != 0 {
		t.Errorf("an empty step: %v, %v", out, err)
	}
	other.Close()
	if _, err := other.Step(t.Context(), nil); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a step of a closed engine: %v", err)
	}
	if _, err := other.NewSequence(); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a sequence of a closed engine: %v", err)
	}
}

func TestLogitsWanted(t *testing.T) {
	t.Parallel()
	cp := synthetic(t, "qwen3_moe", nil)
	e := newEngine(t, cp, newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1), kernels.Q8, nil)
	tokens := randomTokens(6, 512, 1)
	all := step(t, e, newSequence(t, e), tokens, budget.Prefill, engine.AllLogits)
	out, err := e.Step(t.Context(), []engine.Chunk{
		{Sequence: newSequence(t, e), Tokens: tokens, Logits: engine.NoLogits},
		{Sequence: newSequence(t, e), Tokens: tokens[:3], Logits: engine.AllLogits},
		{Sequence: newSequence(t, e), Tokens: tokens, Logits: engine.LastLogits},
	})
	if err != nil {
		t.Fatal(err)
	}
	if out[0].Logits != nil || out[0].Err != nil {
		t.Errorf("%d logits where none are wanted, %v", len(out[0].Logits), out[0].Err)
	}
	mustEqualBits(t, out[1].Logits, all[:3*512], 512)
	mustEqualBits(t, out[2].Logits, all[5*512:], 512)
}

func TestTruncateContinues(t *testing.T) {
	t.Parallel()
	cp := synthetic(t, "qwen3_moe", nil)
	e := newEngine(t, cp, newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1), kernels.Q8, nil)
	tokens := randomTokens(70, 512, 1)
	s := newSequence(t, e)
	all := step(t, e, s, tokens, budget.Prefill, engine.AllLogits)
	for _, length := range []int{66, 64, 10, 0} {
		if err := s.Truncate(length); err != nil || s.Length() != length {
			t.Fatalf("cut to %d: %v, length %d", length, err, s.Length())
		}
		n := min(length+3, 70)
		mustEqualBits(t, step(t, e, s, tokens[length:n], budget.Prefill, engine.AllLogits), all[length*512:n*512], 512)
	}
	for _, bad := range []int{-1, 4} {
		if err := s.Truncate(bad); err == nil || s.Length() != 3 {
			t.Errorf("cut to %d: %v, length %d", bad, err, s.Length())
		}
	}
	s.Close()
	if err := s.Truncate(0); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("cut a closed sequence: %v", err)
	}
}

// Parts 0 of all experts are resident, so nothing is as a whole.
type firstParts struct{}

func (firstParts) Resident(int, int32) bool                { return false }
func (firstParts) ResidentPart(_ int, _ int32, p int) bool { return p == 0 }

type partExperts struct{ *localExperts }

func (partExperts) Snapshot() engine.Residency { return firstParts{} }

func TestBudgetPhasesAndTotals(t *testing.T) {
	t.Parallel()
	cp := synthetic(t, "mixtral", nil)
	set := selectSet(t, "")
	x := newExperts(t, cp, set, kernels.Q8, 3)
	tokens := randomTokens(9, 512, 4)
	run := func(change func(*engine.Options)) (prefill, decode []float32, totals engine.Totals) {
		e := newEngine(t, cp, x, kernels.Q8, func(o *engine.Options) {
			o.Parts = 3
			change(o)
		})
		s := newSequence(t, e)
		prefill = step(t, e, s, tokens[:8], budget.Prefill, engine.AllLogits)
		decode = step(t, e, s, tokens[8:], budget.Decode, engine.AllLogits)
		return prefill, decode, e.Totals()
	}
	wholePrefill, wholeDecode, totals := run(func(*engine.Options) {})
	if totals.DroppedExperts != 0 || totals.DroppedBytes != 0 || totals.Misses == 0 {
		t.Errorf("totals without a budget: %+v", totals)
	}
	// A budget that is never reached changes no bit.
	prefill, decode, _ := run(func(o *engine.Options) { o.Budget = budget.Policy{Count: 100, Prefill: true, Rescue: true} })
	mustEqualBits(t, prefill, wholePrefill, 512)
	mustEqualBits(t, decode, wholeDecode, 512)

	// One expert of three in each of three layers' decode step: two are dropped, prefill is as it was.
	prefill, decode, totals = run(func(o *engine.Options) {
		o.Budget = budget.Policy{Count: 1, Rescue: true}
		o.Experts = partExperts{x}
	})
	mustEqualBits(t, prefill, wholePrefill, 512)
	if equalBits(decode, wholeDecode) {
		t.Error("a decode step with a third of its experts has the same bits")
	}
	if totals.DroppedExperts != 6 || totals.RescuedRows != 0 || !(totals.DroppedMass > 0.1 && totals.DroppedMass < 3) {
		t.Errorf("totals: %+v", totals)
	}
	var unread int // parts 1 and 2 of an expert
	for part := 1; part < 3; part++ {
		from, to := kernels.PartRange(kernels.Q8, 160, 3, part)
		unread += kernels.ExpertShape{Format: kernels.Q8, Hidden: 192, Intermediate: to - from}.Bytes()
	}
	if totals.DroppedBytes != int64(6*unread) {
		t.Errorf("%d bytes dropped, want %d", totals.DroppedBytes, 6*unread)
	}

	// Prefill too, on request; the rows that lose all are rescued.
	prefill, _, totals = run(func(o *engine.Options) { o.Budget = budget.Policy{Count: 1, Prefill: true, Rescue: true} })
	if equalBits(prefill, wholePrefill) || totals.RescuedRows == 0 {
		t.Errorf("prefill governed: %+v", totals)
	}
	for i, v := range prefill {
		if math.IsNaN(float64(v)) {
			t.Fatalf("logit %d is NaN", i)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	cp := synthetic(t, "mixtral", func(s *synth.Spec) { s.Layers = 1 })
	x := newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1)
	tm := newTeam(t, 1)
	valid := engine.Options{Team: tm, ExpertFormat: kernels.Q8, DenseFormat: kernels.Q8, Experts: x}
	for want, change := range map[string]func(o *engine.Options){
		"Options.Team is missing":            func(o *engine.Options) { o.Team = nil },
		"Options.Experts is missing":         func(o *engine.Options) { o.Experts = nil },
		"Options.ExpertFormat is missing":    func(o *engine.Options) { o.ExpertFormat = 0 },
		"a context of 513 positions":         func(o *engine.Options) { o.Context = 513 },
		"the model has from 1 to 512":        func(o *engine.Options) { o.Context = -1 },
		"4 parts: experts of width 160 have": func(o *engine.Options) { o.Parts = 4 },
		`KV format "q8" is unknown`:          func(o *engine.Options) { o.KVFormat = "q8" },
	} {
		o := valid
		change(&o)
		if _, err := engine.New(cp, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}

	var told []int64
	o := valid
	o.Progress = func(done, total int64) { told = append(told, done, total) }
	e, err := engine.New(cp, o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if e.Context() != 512 || e.KVFormat() != attention.BF16 || e.PositionBytes() != 2*2*32*2 {
		t.Errorf("context %d, KV format %s of %d bytes", e.Context(), e.KVFormat(), e.PositionBytes())
	}
	if n := len(told); n != 4 || told[2] != told[3] || told[1] != told[3] || told[3] != e.DenseBytes() || told[0] >= told[2] {
		t.Errorf("progress %v of %d", told, e.DenseBytes())
	}
	o = valid
	o.ExpertFormat = kernels.F32
	precise, err := engine.New(cp, o)
	if err != nil {
		t.Fatal(err)
	}
	defer precise.Close()
	if precise.KVFormat() != attention.F32 {
		t.Errorf("KV format %s beside experts in f32", precise.KVFormat())
	}
}
