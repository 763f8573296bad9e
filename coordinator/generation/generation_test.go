package generation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/sampling"
	"github.com/moepool/moepool/coordinator/tokenizer"
	"github.com/moepool/moepool/internal/leaks"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// withoutExperts are routed experts that add nothing: the demo model's dense part is model enough for these tests.
type withoutExperts struct{}

func (withoutExperts) Compute(ctx context.Context, call *engine.ExpertCall) (engine.ExpertStats, error) {
	return engine.ExpertStats{}, ctx.Err()
}
func (withoutExperts) Snapshot() engine.Residency            { return withoutExperts{} }
func (withoutExperts) Resident(layer int, expert int32) bool { return false }

func demoEngine(t testing.TB) (*engine.Engine, *tokenizer.Tokenizer) {
	t.Helper()
	cp, err := checkpoint.Open(demoModel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Close() })
	set, err := kernels.Select("")
	if err != nil {
		t.Fatal(err)
	}
	tm, err := team.New(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tm.Close)
	e, err := engine.New(cp, engine.Options{ExpertFormat: kernels.Q8, DenseFormat: kernels.Q8, Kernels: set, Team: tm, Experts: withoutExperts{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e, demoTokenizer(t)
}

// run answers on a sequence of its own, or on seq.
func run(t testing.TB, e Engine, seq *engine.Sequence, tk *tokenizer.Tokenizer, q Request) (*Result, []Piece) {
	t.Helper()
	if seq == nil {
		seq = newSequence(t, e)
		defer seq.Close()
	}
	var pieces []Piece
	r, err := Run(t.Context(), e, seq, tk, q, func(p Piece) error { pieces = append(pieces, p); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return r, pieces
}

func newSequence(t testing.TB, e Engine) *engine.Sequence {
	t.Helper()
	seq, err := e.(*engine.Engine).NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// TestContinuedRun: a run that was given the beginning of its answer goes on with the tokens, the text and the end of the unbroken run,
// whatever the sampling and the chunks of the prefill, on a new sequence or one that holds a beginning.
func TestContinuedRun(t *testing.T) {
	t.Parallel()
	e, tk := demoEngine(t)
	for name, params := range map[string]sampling.Params{
		"greedy": {}, "seeded": {Temperature: 0.8, Seed: 7}, "cut": {Temperature: 1.5, TopK: 40, TopP: 0.95, MinP: 0.01, Seed: 1 << 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := Request{Prompt: tk.Encode("And it came to pass", true), MaxTokens: 20, Sampling: params}
			whole, pieces := run(t, e, nil, tk, q)
			if len(whole.Tokens) != 20 || whole.FinishReason != FinishLength || whole.New() != 20 {
				t.Fatalf("%+v", whole)
			}
			// The same answer with a stop string that spans tokens 11 to 13.
			stopping := q
			from := len(pieceText(pieces[:11])) + 1
			stopping.Stop = []string{whole.Text[from : len(pieceText(pieces[:13]))+1]}
			for _, q := range []Request{q, stopping} {
				whole, pieces := run(t, e, nil, tk, q)
				used := newSequence(t, e)
				defer used.Close()
				for at := range len(whole.Tokens) + 1 {
					q := q
					q.Generated, q.PrefillChunk = whole.Tokens[:at], at%5
					seq := used
					if at%2 == 0 {
						seq = nil
					} else if used.Length() > len(q.Prompt)+at/2 {
						if err := used.Truncate(len(q.Prompt) + at/2); err != nil {
							t.Fatal(err)
						}
					}
					r, rest := run(t, e, seq, tk, q)
					if !slices.Equal(r.Tokens, whole.Tokens) || r.Text != whole.Text || r.FinishReason != whole.FinishReason {
						t.Fatalf("broken after %d tokens: %v %q %s, unbroken %v %q %s", at, r.Tokens, r.Text, r.FinishReason, whole.Tokens, whole.Text,
							whole.FinishReason)
					}
					if !slices.Equal(rest, pieces[at:]) || r.Given != at || r.New() != len(rest) || r.PromptTokens != len(q.Prompt) {
						t.Fatalf("broken after %d tokens: pieces %q, %d given, %d new", at, rest, r.Given, r.New())
					}
				}
			}
		})
	}
}

func pieceText(pieces []Piece) string {
	text := ""
	for _, p := range pieces {
		text += p.Text
	}
	return text
}

// TestRefusedContinuation: tokens that can't be the beginning of the answer are refused in words.
func TestRefusedContinuation(t *testing.T) {
	t.Parallel()
	e, tk := demoEngine(t)
	seq := newSequence(t, e)
	defer seq.Close()
	for want, q := range map[string]Request{
		"3 tokens of the answer are given already": {Prompt: []int32{1}, MaxTokens: 2, Generated: []int32{5, 6, 7}},
		"it ended (stop) with number 1":            {Prompt: []int32{1}, MaxTokens: 9, Generated: []int32{5, 6}, EndTokens: []int{5}},
	} {
		r, err := Run(t.Context(), e, seq, tk, q, func(Piece) error { return errors.New("nothing may be emitted") })
		if err == nil || !strings.Contains(err.Error(), want) || r.FinishReason != FinishError {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestRefusedToken: a result has the tokens and the text that were taken, so that what a coordinator says it gave is what its client got,
// and an answer continued on the same sequence is the unbroken one.
func TestRefusedToken(t *testing.T) {
	t.Parallel()
	e, tk := demoEngine(t)
	q := Request{Prompt: tk.Encode("And it came to pass", true), MaxTokens: 9}
	whole, pieces := run(t, e, nil, tk, q)
	for taken := range len(whole.Tokens) {
		seq := newSequence(t, e)
		defer seq.Close()
		var got []Piece
		full := errors.New("full")
		r, err := Run(t.Context(), e, seq, tk, q, func(p Piece) error {
			if len(got) == taken {
				return full
			}
			got = append(got, p)
			return nil
		})
		if !errors.Is(err, full) || r.FinishReason != FinishError {
			t.Fatalf("%v, %s", err, r.FinishReason)
		}
		if !slices.Equal(r.Tokens, whole.Tokens[:taken]) || r.Text != pieceText(pieces[:taken]) || r.New() != taken {
			t.Fatalf("%d tokens were taken, the result has %v %q of %v", taken, r.Tokens, r.Text, whole.Tokens)
		}
		rest := q
		rest.Generated = r.Tokens
		if r, more := run(t, e, seq, tk, rest); !slices.Equal(r.Tokens, whole.Tokens) || !slices.Equal(more, pieces[taken:]) {
			t.Fatalf("refused after %d tokens, it went on with %v, unbroken %v", taken, r.Tokens, whole.Tokens)
		}
	}
}

// TestBudgetOfRequest: a request's own budget is the step's, and only that request's.
func TestBudgetOfRequest(t *testing.T) {
	t.Parallel()
	e, tk := demoEngine(t)
	q := Request{Prompt: tk.Encode("And it came to pass", true), MaxTokens: 6}
	run(t, e, nil, tk, q)
	if n := e.Totals().DroppedExperts; n != 0 {
		t.Fatalf("%d experts dropped without a budget", n)
	}
	q.Budget = &budget.Policy{Count: 1, Rescue: true}
	run(t, e, nil, tk, q)
	dropped := e.Totals().DroppedExperts
	if dropped == 0 {
		t.Fatal("nothing dropped with a budget of 1")
	}
	q.Budget = nil
	run(t, e, nil, tk, q)
	if n := e.Totals().DroppedExperts; n != dropped {
		t.Fatalf("%d experts dropped after the request with the budget", n-dropped)
	}
	a, b := newSequence(t, e), newSequence(t, e)
	defer a.Close()
	defer b.Close()
	_, err := e.Step(t.Context(), []engine.Chunk{{Sequence: a, Tokens: []int32{1}}, {Sequence: b, Tokens: []int32{1}, Budget: &budget.Policy{Count: 3}}})
	if err == nil || !strings.Contains(err.Error(), "count=3") {
		t.Fatalf("one step took two budgets: %v", err)
	}
}
