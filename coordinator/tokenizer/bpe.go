package tokenizer

import (
	"unicode/utf8"
)

// bpe is the model: it cuts a piece into characters (or bytes) and merges neighbours, the pair of lowest rank first, the leftmost
// of equal ones.
type bpe struct {
	vocab  map[string]int32
	merges map[pair]merge
	// byteIDs are the ids of the 256 characters of byte level; noID where the vocabulary lacks one.
	byteIDs [256]int32
	// fallback are the ids of <0x00> … <0xFF>; noID where the vocabulary lacks one.
	fallback [256]int32

	unknown      int32 // id for characters without one; noID: they are dropped
	fuseUnknown  bool
	byteFallback bool
	ignoreMerges bool // a piece that is a token is that token
	prefix       string
	suffix       string

	cuts  cuts
	cache pieceCache
}

type pair struct{ left, right int32 }

type merge struct {
	rank int32
	id   int32
}

// maxCachedPiece is the length in bytes up to which a piece's ids are remembered.
const maxCachedPiece = 128

// encode appends the ids of one piece. With byteLevel, piece holds bytes that stand for GPT-2's characters.
func (m *bpe) encode(ids []int32, piece string, byteLevel bool) []int32 {
	if m.ignoreMerges {
		word := piece
		if byteLevel {
			word = toByteLevel(piece)
		}
		if id, ok := m.vocab[word]; ok {
			return append(ids, id)
		}
	}
	// A long piece is cut where that changes nothing.
	for len(piece) > maxCachedPiece && !byteLevel && m.prefix == "" && m.suffix == "" {
		n := m.cuts.next(piece, m.knows)
		ids = m.encodePart(ids, piece[:n], false)
		piece = piece[n:]
	}
	if piece == "" {
		return ids
	}
	return m.encodePart(ids, piece, byteLevel)
}

func (m *bpe) knows(char string) bool {
	_, ok := m.vocab[char]
	return ok
}

// encodePart is encode without a look at the whole piece.
func (m *bpe) encodePart(ids []int32, piece string, byteLevel bool) []int32 {
	if len(piece) > maxCachedPiece {
		return m.appendPiece(ids, piece, byteLevel)
	}
	if cached, ok := m.cache.get(piece); ok {
		return append(ids, cached...)
	}
	n := len(ids)
	ids = m.appendPiece(ids, piece, byteLevel)
	m.cache.put(piece, ids[n:])
	return ids
}

func (m *bpe) appendPiece(ids []int32, piece string, byteLevel bool) []int32 {
	w := wordPool.Get().(*word)
	defer wordPool.Put(w)
	w.symbols = w.symbols[:0]
	if byteLevel && m.prefix == "" && m.suffix == "" && !m.byteFallback {
		m.addBytes(w, piece)
	} else {
		if byteLevel {
			piece = toByteLevel(piece)
		}
		m.addChars(w, piece)
	}
	w.mergeAll(m.merges)
	for i := int32(0); i >= 0 && len(w.symbols) > 0; i = w.symbols[i].next {
		ids = append(ids, w.symbols[i].id)
	}
	return ids
}

// addBytes makes a symbol of each byte.
func (m *bpe) addBytes(w *word, piece string) {
	unknown := false
	for i := range len(piece) {
		id := m.byteIDs[piece[i]]
		if id != noID {
			w.add(id)
			unknown = false
			continue
		}
		if m.unknown != noID && !(unknown && m.fuseUnknown) {
			w.add(m.unknown)
		}
		unknown = true
	}
}

// addChars makes a symbol of each character; one that is not in the vocabulary becomes its bytes' tokens, or the unknown token.
func (m *bpe) addChars(w *word, piece string) {
	// pending: an unknown token that is added with the next known character, so that neighbours can be fused. Bytes' tokens go
	// before it, as in Hugging Face's code.
	pending := false
	for i := 0; i < len(piece); {
		_, n := utf8.DecodeRuneInString(piece[i:])
		s := piece[i : i+n]
		if m.prefix != "" && i > 0 {
			s = m.prefix + s
		}
		if i += n; m.suffix != "" && i == len(piece) {
			s += m.suffix
		}
		if id, ok := m.vocab[s]; ok {
			if pending {
				w.add(m.unknown)
				pending = false
			}
			w.add(id)
			continue
		}
		if m.byteFallback && m.hasBytes(s) {
			for j := range len(s) {
				w.add(m.fallback[s[j]])
			}
			continue
		}
		if m.unknown != noID {
			if pending && !m.fuseUnknown {
				w.add(m.unknown)
			}
			pending = true
		}
	}
	if pending {
		w.add(m.unknown)
	}
}

func (m *bpe) hasBytes(s string) bool {
	for i := range len(s) {
		if m.fallback[s[i]] == noID {
			return false
		}
	}
	return true
}
