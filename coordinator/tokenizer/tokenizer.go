package tokenizer

// Tokenizer is an immutable tokenizer; its methods may be called from any goroutine.
type Tokenizer struct {
	model         *bpe
	added         *addedTokens
	normalizer    normalizer
	preTokenizers []preTokenizer
	// byteLevel: the last pre-tokenizer was ByteLevel, whose mapping of bytes to characters the model does itself.
	byteLevel bool
	template  []templatePiece
	decoders  []decoderSpec

	tokens  []string // by id; "" where no token has the id
	known   []bool   // by id: some token has the id
	special []bool   // by id: left out by Decode with skipSpecial
}

// Encode gives the ids of text; added and special tokens in the text are recognised. addSpecial applies the post-processor
// (bos/eos). Invalid UTF-8 is first replaced by U+FFFD, one for each maximal invalid part, as Rust's from_utf8_lossy does: ids
// always describe valid text.
func (t *Tokenizer) Encode(text string, addSpecial bool) []int32 {
	ids := t.encodeText(validUTF8(text))
	if !addSpecial || t.template == nil {
		return ids
	}
	var out []int32
	for _, p := range t.template {
		if p.sequence {
			out = append(out, ids...)
		} else {
			out = append(out, p.ids...)
		}
	}
	return out
}

func (t *Tokenizer) encodeText(text string) []int32 {
	if text == "" {
		return nil
	}
	pieces := t.added.split([]piece{{text: text, id: noID, first: true}}, &t.added.exact)
	if t.normalizer != nil {
		pieces = splitPieces(pieces, func(p piece, emit func(string, bool)) {
			emit(t.normalizer.normalize(p.text), p.first)
		})
	}
	pieces = t.added.split(pieces, &t.added.normalized)
	for _, p := range t.preTokenizers {
		pieces = p.preTokenize(pieces)
	}
	ids := make([]int32, 0, len(text)/3+1)
	for _, p := range pieces {
		if p.id != noID {
			ids = append(ids, p.id)
		} else {
			ids = t.model.encode(ids, p.text, t.byteLevel)
		}
	}
	return ids
}

// Decode gives the text of ids; skipSpecial leaves special tokens out. Ids that no token has are left out. Invalid UTF-8 becomes
// U+FFFD as in Rust's lossy conversion.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	s := t.NewStream(skipSpecial)
	for _, id := range ids {
		s.push(id)
	}
	return s.Flush()
}

// Size is the number of ids (largest id + 1).
func (t *Tokenizer) Size() int { return len(t.tokens) }

// ID finds a token by its exact content, such as "<|im_end|>".
func (t *Tokenizer) ID(token string) (int32, bool) {
	if id, ok := t.added.byContent[token]; ok {
		return id, true
	}
	id, ok := t.model.vocab[token]
	return id, ok
}

// Token is the content of an id as the vocabulary writes it ("Ġthe", "▁the", "<|im_end|>"); false if no token has the id.
func (t *Tokenizer) Token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(t.tokens) || !t.known[id] {
		return "", false
	}
	return t.tokens[id], true
}

// IsSpecial says whether Decode with skipSpecial leaves the id out.
func (t *Tokenizer) IsSpecial(id int32) bool {
	return id >= 0 && int(id) < len(t.special) && t.special[id]
}
