package tokenizer

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math"
	"strings"
)

type modelFile struct {
	Type                    string           `json:"type"`
	Dropout                 *float64         `json:"dropout"`
	UnkToken                *string          `json:"unk_token"`
	ContinuingSubwordPrefix *string          `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string          `json:"end_of_word_suffix"`
	FuseUnk                 bool             `json:"fuse_unk"`
	ByteFallback            bool             `json:"byte_fallback"`
	IgnoreMerges            bool             `json:"ignore_merges"`
	Vocab                   map[string]int64 `json:"vocab"`
	Merges                  json.RawMessage  `json:"merges"`
}

func parseModel(raw json.RawMessage) (*bpe, error) {
	if isNull(raw) {
		return nil, fmt.Errorf("missing")
	}
	// The kind first: other models' vocabularies have another form.
	var k struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &k); err != nil {
		return nil, err
	}
	if k.Type != "BPE" && k.Type != "" {
		return nil, unknownKind(k.Type, "BPE")
	}
	var f modelFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	if f.Vocab == nil || f.Merges == nil {
		return nil, fmt.Errorf("kind BPE needs vocab and merges")
	}
	m := &bpe{
		vocab: make(map[string]int32, len(f.Vocab)), unknown: noID,
		fuseUnknown: f.FuseUnk, byteFallback: f.ByteFallback, ignoreMerges: f.IgnoreMerges,
		cache: pieceCache{seed: maphash.MakeSeed()},
	}
	if f.ContinuingSubwordPrefix != nil {
		m.prefix = *f.ContinuingSubwordPrefix
	}
	if f.EndOfWordSuffix != nil {
		m.suffix = *f.EndOfWordSuffix
	}
	for token, id := range f.Vocab {
		if id < 0 || id >= math.MaxInt32 {
			return nil, fmt.Errorf("vocab: id %d of %q is not between 0 and %d", id, token, math.MaxInt32-1)
		}
		m.vocab[token] = int32(id)
	}
	for b := range 256 {
		m.byteIDs[b] = m.lookup(byteToChar[b])
		m.fallback[b] = m.lookup(fmt.Sprintf("<0x%02X>", b))
	}
	return m, m.parseMerges(f.Merges)
}

func (m *bpe) lookup(token string) int32 {
	if id, ok := m.vocab[token]; ok {
		return id
	}
	return noID
}

// parseMerges reads both forms, "a b" and ["a","b"]; the rank of a merge is its place.
func (m *bpe) parseMerges(raw json.RawMessage) error {
	var pairs [][]string
	var lines []string
	if err := json.Unmarshal(raw, &lines); err == nil {
		for i, l := range lines {
			// Files that were converted from merges.txt have its first line.
			if strings.HasPrefix(l, "#version") {
				continue
			}
			left, right, ok := strings.Cut(l, " ")
			if !ok || strings.Contains(right, " ") {
				return fmt.Errorf("merges[%d] %q is not two tokens with a space between them", i, l)
			}
			pairs = append(pairs, []string{left, right})
		}
	} else if err := json.Unmarshal(raw, &pairs); err != nil {
		return fmt.Errorf(`merges are neither strings "a b" nor pairs ["a", "b"]: %w`, err)
	}
	m.merges = make(map[pair]merge, len(pairs))
	for i, p := range pairs {
		if len(p) != 2 {
			return fmt.Errorf("merges[%d] has %d tokens, not 2", i, len(p))
		}
		right, ok := strings.CutPrefix(p[1], m.prefix)
		if !ok && m.prefix != "" {
			return fmt.Errorf("merges[%d]: %q does not start with continuing_subword_prefix %q", i, p[1], m.prefix)
		}
		var ids [3]int32
		for j, token := range [3]string{p[0], p[1], p[0] + right} {
			if ids[j], ok = m.vocab[token]; !ok {
				return fmt.Errorf("merges[%d] (%q, %q): %q is not in the vocabulary", i, p[0], p[1], token)
			}
		}
		m.cuts.note(p[0] + right)
		// A repeated pair takes the later rank, as in Hugging Face's map.
		m.merges[pair{ids[0], ids[1]}] = merge{rank: int32(i), id: ids[2]}
	}
	return nil
}

// resolveUnknown finds the unknown token, in the vocabulary or among the added tokens.
func (t *Tokenizer) resolveUnknown(raw json.RawMessage) error {
	var f struct {
		UnkToken *string `json:"unk_token"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return err
	}
	if f.UnkToken == nil {
		return nil
	}
	id, ok := t.ID(*f.UnkToken)
	if !ok {
		return fmt.Errorf("unk_token %q is not a token", *f.UnkToken)
	}
	t.model.unknown = id
	return nil
}
