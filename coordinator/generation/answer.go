package generation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moepool/moepool/coordinator/tokenizer"
)

// answer is what an answer's tokens mean: the text that becomes certain with each, and the end. It is a function of the tokens alone, so
// that a continued answer is the unbroken one.
type answer struct {
	endTokens       []int
	prompt, context int // positions
	most            int // tokens
	decoded         *stopText
	tokens          []int32
	text            strings.Builder
	finish          string // why it ended, "" before
}

func newAnswer(q *Request, context int, stream *tokenizer.Stream) *answer {
	return &answer{endTokens: q.EndTokens, prompt: len(q.Prompt), context: context, most: q.MaxTokens, decoded: newStopText(stream, q.Stop)}
}

// position is that of the next token.
func (a *answer) position() int { return a.prompt + len(a.tokens) }

// take adds a token; finish says whether it was the last.
func (a *answer) take(token int32) Piece {
	a.tokens = append(a.tokens, token)
	piece := Piece{Token: token}
	end := slices.Contains(a.endTokens, int(token))
	if !end {
		piece.Text = a.decoded.next(token)
	}
	switch {
	case end, a.decoded.stopped:
		a.finish = FinishStop
	case len(a.tokens) >= a.most, a.position() > a.context:
		a.finish = FinishLength
	}
	if a.finish != "" {
		piece.Text += a.decoded.flush()
	}
	a.text.WriteString(piece.Text)
	return piece
}

// resume takes tokens that were given before.
func (a *answer) resume(generated []int32) error {
	for i, token := range generated {
		if a.finish != "" {
			return fmt.Errorf("%d tokens of the answer are given, but it ended (%s) with number %d", len(generated), a.finish, i)
		}
		a.take(token)
	}
	return nil
}
