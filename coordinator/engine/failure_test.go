package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
)

const poison = 7 // the token whose embedding is infinite in poisoned

// poisoned gives a synthetic model with one infinite number in the embedding of one token.
func poisoned(t *testing.T) *checkpoint.Checkpoint {
	t.Helper()
	return changed(t, func(c *checkpoint.Config) string { return c.Embedding }, func(embedding []byte, c *checkpoint.Config) {
		binary.LittleEndian.PutUint16(embedding[poison*c.Hidden*2+10:], 0x7f80)
	})
}

// changed gives a synthetic model of which the stored bytes of one tensor are changed.
func changed(t *testing.T, name func(c *checkpoint.Config) string, change func(tensor []byte, c *checkpoint.Config)) *checkpoint.Checkpoint {
	t.Helper()
	cp := synthetic(t, "qwen2_moe", nil)
	tensor, err := cp.Tensor(name(cp.Config()))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cp.Dir(), "model.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, tensor.Data)
	if at < 0 {
		t.Fatal("tensor not found")
	}
	change(data[at:at+len(tensor.Data)], cp.Config())
	dir := t.TempDir()
	for name, content := range map[string][]byte{"model.safetensors": data, "config.json": read(t, cp.Dir(), "config.json")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return openCheckpoint(t, dir)
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A row that isn't finite, wherever that is found, fails its sequence alone: the others have the bits that they have without it, and
// the sequence goes on from its former length.
func TestRowErrorFailsItsSequence(t *testing.T) {
	t.Parallel()
	cp := poisoned(t)
	vocabulary := cp.Config().Vocabulary
	x := newExperts(t, cp, selectSet(t, ""), kernels.Q8, 2)
	e := newEngine(t, cp, x, kernels.Q8, nil)
	first, second, bad := []int32{10, 11, 12}, []int32{20, 21}, []int32{30, 31, poison, 33}

	for _, test := range []struct {
		name   string
		tokens []int32
		rowErr func(layer, row int) error
		want   []string
		is     error
	}{
		{name: "an infinite embedding", tokens: bad, want: []string{"layer 0, position 4"}, is: kernels.ErrNotFinite},
		{
			name: "a row that experts can't compute", tokens: []int32{30, 31, 32, 33},
			rowErr: func(layer, row int) error {
				if layer == 2 && row == 4 { // the second of the bad sequence's rows
					return kernels.ErrOverflow
				}
				return nil
			},
			want: []string{"layer 2, position 3"}, is: kernels.ErrOverflow,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			x.rowErr = nil
			a, b, failing := newSequence(t, e), newSequence(t, e), newSequence(t, e)
			alone, aloneB := newSequence(t, e), newSequence(t, e)
			step(t, e, failing, []int32{40, 41}, budget.Prefill, engine.NoLogits)
			x.rowErr = test.rowErr
			out, err := e.Step(t.Context(), []engine.Chunk{
				{Sequence: a, Tokens: first, Logits: engine.AllLogits},
				{Sequence: failing, Tokens: test.tokens, Logits: engine.AllLogits},
				{Sequence: b, Tokens: second, Logits: engine.AllLogits},
			})
			if err != nil {
				t.Fatal(err)
			}
			x.rowErr = nil
			if !errors.Is(out[1].Err, test.is) || out[1].Logits != nil || failing.Length() != 2 {
				t.Fatalf("error %v with %d logits, length %d", out[1].Err, len(out[1].Logits), failing.Length())
			}
			for _, part := range test.want {
				if !strings.Contains(out[1].Err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, out[1].Err)
				}
			}
			if out[0].Err != nil || out[2].Err != nil {
				t.Fatalf("neighbours failed: %v, %v", out[0].Err, out[2].Err)
			}
			mustEqualBits(t, out[0].Logits, step(t, e, alone, first, budget.Prefill, engine.AllLogits), vocabulary)
			mustEqualBits(t, out[2].Logits, step(t, e, aloneB, second, budget.Prefill, engine.AllLogits), vocabulary)

			fresh := newSequence(t, e)
			step(t, e, fresh, []int32{40, 41}, budget.Prefill, engine.NoLogits)
			again := []int32{50, 51, 52}
			mustEqualBits(t, step(t, e, failing, again, budget.Prefill, engine.AllLogits),
				step(t, e, fresh, again, budget.Prefill, engine.AllLogits), vocabulary)
		})
	}
}

// A failed row wants no experts, and its sequence's other rows want none from then on.
func TestFailedRowsAreTakenOut(t *testing.T) {
	t.Parallel()
	cp := poisoned(t)
	x := newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1)
	rows := map[int]int{}
	x.observe = func(call *engine.ExpertCall) { rows[call.Layer] = len(call.Choices) }
	var wanting []bool
	e := newEngine(t, cp, x, kernels.Q8, func(o *engine.Options) {
		o.Observer = func(layer int, choices []router.Choice) {
			if layer == 0 {
				for _, c := range choices {
					wanting = append(wanting, len(c.Experts) > 0)
				}
			}
		}
	})
	_, err := e.Step(t.Context(), []engine.Chunk{
		{Sequence: newSequence(t, e), Tokens: []int32{1, poison}, Logits: engine.AllLogits},
		{Sequence: newSequence(t, e), Tokens: []int32{2, 3}, Logits: engine.AllLogits},
	})
	if err != nil {
		t.Fatal(err)
	}
	if rows[0] != 4 || rows[2] != 2 {
		t.Errorf("experts saw %d rows in layer 0 and %d in layer 2, want 4 and 2", rows[0], rows[2])
	}
	if len(wanting) != 4 || wanting[0] || wanting[1] || !wanting[2] || !wanting[3] {
		t.Errorf("rows that want experts in layer 0: %v", wanting)
	}
	// Nobody is left: the step ends early.
	x.calls = 0
	out, err := e.Step(t.Context(), []engine.Chunk{{Sequence: newSequence(t, e), Tokens: []int32{poison}}})
	if err != nil || !errors.Is(out[0].Err, kernels.ErrNotFinite) || x.calls != 1 {
		t.Errorf("error %v, %v after %d calls", err, out[0].Err, x.calls)
	}
}

// An error of the step gives every sequence its former length, and the step can be tried again.
func TestStepErrorRollsBack(t *testing.T) {
	t.Parallel()
	cp := synthetic(t, "mixtral", nil)
	x := newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1)
	e := newEngine(t, cp, x, kernels.Q8, nil)
	a, b := newSequence(t, e), newSequence(t, e)
	step(t, e, a, []int32{1, 2, 3}, budget.Prefill, engine.NoLogits)
	chunks := []engine.Chunk{
		{Sequence: a, Tokens: randomTokens(70, 512, 3), Logits: engine.AllLogits},
		{Sequence: b, Tokens: []int32{5}, Logits: engine.AllLogits},
	}
	memory := a.Bytes()
	died := errors.New("worker w1 died")
	x.err = func(layer int) error {
		if layer == 2 {
			return died
		}
		return nil
	}
	check := func(out []engine.Output, err, want error) {
		t.Helper()
		if !errors.Is(err, want) || out != nil {
			t.Errorf("error %v with %d outputs", err, len(out))
		}
		if a.Length() != 3 || b.Length() != 0 || a.Bytes() != memory || b.Bytes() != 0 {
			t.Errorf("lengths %d and %d, %d and %d bytes", a.Length(), b.Length(), a.Bytes(), b.Bytes())
		}
	}
	out, err := e.Step(t.Context(), chunks)
	check(out, err, died)
	if err == nil || !strings.Contains(err.Error(), "layer 2") {
		t.Errorf("the error does not say the layer: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	x.err = func(layer int) error {
		if layer == 1 {
			cancel()
		}
		return nil
	}
	out, err = e.Step(ctx, chunks)
	check(out, err, context.Canceled)

	x.err = nil
	out, err = e.Step(t.Context(), chunks)
	if err != nil {
		t.Fatal(err)
	}
	fresh := newSequence(t, e)
	step(t, e, fresh, []int32{1, 2, 3}, budget.Prefill, engine.NoLogits)
	mustEqualBits(t, out[0].Logits, step(t, e, fresh, chunks[0].Tokens, budget.Prefill, engine.AllLogits), 512)
	if a.Length() != 73 || b.Length() != 1 {
		t.Errorf("lengths %d and %d after the step", a.Length(), b.Length())
	}
}

// A checkpoint that is truncated underneath is an error of the step.
func TestTruncatedCheckpoint(t *testing.T) {
	t.Parallel()
	cp := synthetic(t, "mixtral", nil)
	e := newEngine(t, cp, newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1), kernels.Q8, nil)
	if err := os.Truncate(filepath.Join(cp.Dir(), "model.safetensors"), 4096); err != nil {
		t.Fatal(err)
	}
	s := newSequence(t, e)
	for range 2 {
		_, err := e.Step(t.Context(), []engine.Chunk{{Sequence: s, Tokens: []int32{500}}})
		if err == nil || !strings.Contains(err.Error(), "became shorter") || s.Length() != 0 {
			t.Errorf("error %v, length %d", err, s.Length())
		}
	}
}
