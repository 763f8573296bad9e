package tokenizer

import "unicode/utf8"

// cuts knows where a long piece may be cut without a change of its ids: between two characters that no merge ever brings into one
// token. SentencePiece-like tokenizers have no pre-tokenizer, so that the whole text is one piece; cut between words, its parts are
// found in the cache.
type cuts struct {
	joined map[[2]rune]struct{} // neighbours in the result of some merge
}

// note marks the neighbours in a merge's result as inseparable.
func (c *cuts) note(token string) {
	if c.joined == nil {
		c.joined = map[[2]rune]struct{}{}
	}
	previous := rune(-1)
	for _, r := range token {
		if previous >= 0 {
			c.joined[[2]rune{previous, r}] = struct{}{}
		}
		previous = r
	}
}

// next gives the length of the first part of piece that can be encoded on its own: up to the first place to cut, so that the parts
// of a text repeat. known says whether a character is a token: unknown ones may be fused with each other.
func (c *cuts) next(piece string, known func(char string) bool) int {
	previous, previousKnown := rune(-1), false
	for i := 0; i < len(piece); {
		r, n := utf8.DecodeRuneInString(piece[i:])
		isKnown := known(piece[i : i+n])
		if previousKnown && isKnown {
			if _, joined := c.joined[[2]rune{previous, r}]; !joined {
				return i
			}
		}
		previous, previousKnown = r, isKnown
		i += n
	}
	return len(piece)
}
