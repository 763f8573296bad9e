package tokenizer

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is an entry of added_tokens: text that becomes one id before anything else looks at it.
type addedToken struct {
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only where no word character is adjacent
	LStrip     bool   `json:"lstrip"`      // takes the white space before it too
	RStrip     bool   `json:"rstrip"`      // takes the white space after it too
	Normalized bool   `json:"normalized"`  // is looked for in the normalized text, in its normalized form
	Special    bool   `json:"special"`
}

// addedTokens finds added tokens in text.
type addedTokens struct {
	byID       map[int32]addedToken
	byContent  map[string]int32
	exact      matcher // tokens that are looked for in the text as it is
	normalized matcher // tokens that are looked for in the normalized text
}

// newAddedTokens gives the tokens ids as Hugging Face does: a token of the model's vocabulary or a repeated one keeps its id, any
// other gets the next free one. (The id in the file is a comment.)
func newAddedTokens(tokens []addedToken, vocab map[string]int32, norm normalizer) *addedTokens {
	a := &addedTokens{byID: map[int32]addedToken{}, byContent: map[string]int32{}}
	next := int32(len(vocab))
	for _, t := range tokens {
		if t.Content == "" {
			continue
		}
		id, ok := a.byContent[t.Content]
		if !ok {
			id, ok = vocab[t.Content]
		}
		if !ok {
			id = next
			next++
		}
		a.byContent[t.Content] = id
		a.byID[id] = t
	}
	ids := make([]int32, 0, len(a.byID))
	for id := range a.byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		t := a.byID[id]
		if !t.Normalized {
			a.exact.add(t.Content, id)
			continue
		}
		content := t.Content
		if norm != nil {
			content = norm.normalize(content)
		}
		a.normalized.add(content, id)
	}
	a.exact.finish()
	a.normalized.finish()
	return a
}

// split cuts the tokens of m out of the pieces that are text.
func (a *addedTokens) split(pieces []piece, m *matcher) []piece {
	if m.empty() {
		return pieces
	}
	var out []piece
	for _, p := range pieces {
		if p.id != noID {
			out = append(out, p)
			continue
		}
		out = a.splitText(out, p, m)
	}
	return out
}

func (a *addedTokens) splitText(out []piece, p piece, m *matcher) []piece {
	text := p.text
	done := 0 // everything before is in out
	for at := 0; ; {
		start, stop, id := m.next(text, at)
		if start < 0 {
			break
		}
		at = stop
		t := a.byID[id]
		if t.SingleWord && (endsWithWord(text[:start]) || startsWithWord(text[stop:])) {
			continue
		}
		if t.LStrip {
			start = max(done, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
		}
		if t.RStrip {
			stop = len(text) - len(strings.TrimLeftFunc(text[stop:], unicode.IsSpace))
		}
		if done < start {
			out = append(out, piece{text: text[done:start], id: noID, first: p.first && done == 0})
		}
		out = append(out, piece{id: id})
		done = stop
	}
	if done < len(text) {
		out = append(out, piece{text: text[done:], id: noID, first: p.first && done == 0})
	}
	return out
}

func endsWithWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// isWord is \w of Rust's regex crate (UTS 18, annex C).
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}

// matcher finds the leftmost-longest of a set of strings: a trie of bytes.
type matcher struct {
	nodes []trieNode
	start [256]bool // some string starts with this byte
	open  []openNode
}

type trieNode struct {
	edges []trieEdge
	id    int32
}

type trieEdge struct {
	b    byte
	node int32
}

// openNode is a node under construction.
type openNode = map[byte]int32

func (m *matcher) empty() bool { return len(m.nodes) == 0 }

// add puts s into the set; of two equal strings the first wins. Call finish after the last one.
func (m *matcher) add(s string, id int32) {
	if s == "" {
		return
	}
	if m.empty() {
		m.nodes, m.open = []trieNode{{id: noID}}, []openNode{{}}
	}
	m.start[s[0]] = true
	n := int32(0)
	for i := range len(s) {
		next, ok := m.open[n][s[i]]
		if !ok {
			next = int32(len(m.nodes))
			m.nodes, m.open = append(m.nodes, trieNode{id: noID}), append(m.open, openNode{})
			m.open[n][s[i]] = next
		}
		n = next
	}
	if m.nodes[n].id == noID {
		m.nodes[n].id = id
	}
}

func (m *matcher) finish() {
	for i, o := range m.open {
		for b, n := range o {
			m.nodes[i].edges = append(m.nodes[i].edges, trieEdge{b, n})
		}
		slices.SortFunc(m.nodes[i].edges, func(x, y trieEdge) int { return cmp.Compare(x.b, y.b) })
	}
	m.open = nil
}

// next finds the first match that starts at or after at, the longest there; start is -1 if there is none.
func (m *matcher) next(text string, at int) (start, stop int, id int32) {
	for ; at < len(text); at++ {
		if !m.start[text[at]] {
			continue
		}
		n, stop, id := int32(0), -1, noID
	walk:
		for i := at; i < len(text); i++ {
			for _, e := range m.nodes[n].edges {
				if e.b == text[i] {
					n = e.node
					if m.nodes[n].id != noID {
						stop, id = i+1, m.nodes[n].id
					}
					continue walk
				}
			}
			break
		}
		if stop >= 0 {
			return at, stop, id
		}
	}
	return -1, -1, noID
}
