package tokenizer

// noID marks a piece that is still text.
const noID = int32(-1)

// piece is a part of the text on its way to ids: an added token that was found (id), or text that is still to be split (never
// empty).
type piece struct {
	text string
	id   int32
	// first: the piece starts at the beginning of the whole text. Metaspace with prepend_scheme "first" asks.
	first bool
}

// splitPieces replaces each piece of text by what split makes of it; empty parts disappear, found tokens stay.
func splitPieces(pieces []piece, split func(p piece, emit func(text string, first bool))) []piece {
	out := make([]piece, 0, len(pieces)+len(pieces)/2)
	emit := func(text string, first bool) {
		if text != "" {
			out = append(out, piece{text: text, id: noID, first: first})
		}
	}
	for _, p := range pieces {
		if p.id != noID {
			out = append(out, p)
			continue
		}
		split(p, emit)
	}
	return out
}
