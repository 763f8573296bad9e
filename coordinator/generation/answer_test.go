package generation

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/moepool/moepool/coordinator/tokenizer"
)

const demoModel = "../../demo/qwen3moe-2m"

func demoTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tk, err := tokenizer.Load(demoModel)
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// brokenCharacters are ids of the bytes of characters that take several tokens: a break falls inside them.
func brokenCharacters(tk *tokenizer.Tokenizer) []int32 { return tk.Encode("é€😀漢", false) }

// drawAnswer draws tokens, some of them parts of characters, and what ends an answer of them.
func drawAnswer(t *rapid.T, tk *tokenizer.Tokenizer, vocabulary int) (tokens []int32, q Request) {
	parts := brokenCharacters(tk)
	token := rapid.OneOf(rapid.Int32Range(0, int32(vocabulary-1)), rapid.SampledFrom(parts))
	tokens = rapid.SliceOfN(token, 1, 24).Draw(t, "tokens")
	whole := tk.NewStream(true)
	text := ""
	for _, token := range tokens {
		text += whole.Next(token)
	}
	text += whole.Flush()
	q = Request{Prompt: make([]int32, 3), MaxTokens: rapid.IntRange(1, 30).Draw(t, "most")}
	for range rapid.IntRange(0, 3).Draw(t, "stops") {
		// A piece of the text itself, so that it is found, with another end in some cases, so that it is held back in vain.
		if len(text) < 2 {
			break
		}
		from := rapid.IntRange(0, len(text)-1).Draw(t, "from")
		to := rapid.IntRange(from+1, min(len(text), from+8)).Draw(t, "to")
		q.Stop = append(q.Stop, text[from:to]+rapid.SampledFrom([]string{"", "", "~"}).Draw(t, "tail"))
	}
	if rapid.Bool().Draw(t, "end token") {
		q.EndTokens = []int{int(rapid.SampledFrom(tokens).Draw(t, "end"))}
	}
	return tokens, q
}

// take gives an answer tokens until it ends or there are no more.
func take(a *answer, tokens []int32) (pieces []Piece) {
	for _, token := range tokens {
		if a.finish != "" {
			break
		}
		pieces = append(pieces, a.take(token))
	}
	return pieces
}

// TestContinuedAnswer: broken at any token, and continued from the tokens that were given, an answer has the same pieces, text and end:
// inside a character, inside a stop string, after its last token.
func TestContinuedAnswer(t *testing.T) {
	t.Parallel()
	tk := demoTokenizer(t)
	const vocabulary = 512
	rapid.Check(t, func(t *rapid.T) {
		tokens, q := drawAnswer(t, tk, vocabulary)
		context := len(q.Prompt) + rapid.IntRange(0, 26).Draw(t, "room")
		unbroken := newAnswer(&q, context, tk.NewStream(true))
		pieces := take(unbroken, tokens)
		for at := range len(pieces) + 1 {
			continued := newAnswer(&q, context, tk.NewStream(true))
			if err := continued.resume(tokens[:at]); err != nil {
				t.Fatal(err)
			}
			rest := take(continued, tokens[at:])
			if !slices.Equal(rest, pieces[at:]) || continued.finish != unbroken.finish || continued.text.String() != unbroken.text.String() ||
				!slices.Equal(continued.tokens, unbroken.tokens) {
				t.Fatalf("broken after %d tokens: %q (%s), unbroken %q (%s)", at, rest, continued.finish, pieces, unbroken.finish)
			}
		}
		joined := ""
		for _, p := range pieces {
			joined += p.Text
		}
		if joined != unbroken.text.String() {
			t.Fatalf("pieces make %q, the text is %q", joined, unbroken.text.String())
		}
		if unbroken.finish != "" {
			late := newAnswer(&q, context, tk.NewStream(true))
			if err := late.resume(append(slices.Clone(unbroken.tokens), 1)); err == nil || !strings.Contains(err.Error(), unbroken.finish) {
				t.Fatalf("tokens after the end were taken: %v", err)
			}
		}
	})
}

// TestAnswersThatBreak: the property test above does see breaks inside characters and inside stop strings.
func TestAnswersThatBreak(t *testing.T) {
	t.Parallel()
	tk := demoTokenizer(t)
	ids := brokenCharacters(tk)
	if len(ids) < 6 {
		t.Fatalf("%d tokens for 4 characters of several bytes: none is broken", len(ids))
	}
	q := Request{Prompt: []int32{1}, MaxTokens: 100}
	a := newAnswer(&q, 1000, tk.NewStream(true))
	first := a.take(ids[0])
	if first.Text != "" {
		t.Fatalf("the first byte of a character gave %q", first.Text)
	}
	q.Stop = []string{"€"}
	a = newAnswer(&q, 1000, tk.NewStream(true))
	take(a, ids)
	if a.finish != FinishStop || a.text.String() != "é" {
		t.Fatalf("%q, %s", a.text.String(), a.finish)
	}
}
