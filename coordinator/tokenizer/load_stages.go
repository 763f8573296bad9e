package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func parseNormalizer(raw json.RawMessage, depth int) (normalizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	if depth > maxDepth {
		return nil, errTooDeep
	}
	kind, err := kindOf(raw)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "NFC":
		return unicodeForm(norm.NFC), nil
	case "NFD":
		return unicodeForm(norm.NFD), nil
	case "NFKC":
		return unicodeForm(norm.NFKC), nil
	case "NFKD":
		return unicodeForm(norm.NFKD), nil
	case "Lowercase":
		return lowercase{}, nil
	case "Prepend":
		var p struct {
			Prepend string `json:"prepend"`
		}
		err := json.Unmarshal(raw, &p)
		return prepend(p.Prepend), err
	case "Replace":
		lit, re, content, err := parseReplace(raw)
		if err != nil {
			return nil, fmt.Errorf("kind Replace: %w", err)
		}
		if re != nil {
			return replacePattern{re, content}, nil
		}
		return replaceString{lit, content}, nil
	case "Sequence":
		var s struct {
			Normalizers []json.RawMessage `json:"normalizers"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		var seq normalizerSequence
		for _, r := range s.Normalizers {
			n, err := parseNormalizer(r, depth+1)
			if err != nil {
				return nil, err
			}
			if n != nil {
				seq = append(seq, n)
			}
		}
		return seq, nil
	}
	return nil, unknownKind(kind, "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Prepend", "Replace", "Sequence")
}

// parseReplace reads what the normalizer and the decoder called Replace have in common; re is nil for a literal pattern.
func parseReplace(raw json.RawMessage) (literal string, re *pattern, content string, err error) {
	var r struct {
		Pattern patternFile `json:"pattern"`
		Content string      `json:"content"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", nil, "", err
	}
	literal, re, err = r.Pattern.parse()
	return literal, re, r.Content, err
}

// patternFile is {"String": …} or {"Regex": …}.
type patternFile struct {
	String *string
	Regex  *string
}

func (p patternFile) parse() (literal string, re *pattern, err error) {
	switch {
	case p.String != nil && p.Regex == nil && *p.String != "":
		return *p.String, nil, nil
	case p.Regex != nil && p.String == nil && *p.Regex != "":
		re, err = newPattern(*p.Regex)
		return "", re, err
	}
	return "", nil, errors.New(`pattern must be {"String": …} or {"Regex": …} and not empty`)
}

func parsePreTokenizer(raw json.RawMessage, depth int) ([]preTokenizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	if depth > maxDepth {
		return nil, errTooDeep
	}
	kind, err := kindOf(raw)
	if err != nil {
		return nil, err
	}
	one := func(p preTokenizer, err error) ([]preTokenizer, error) {
		if err != nil {
			return nil, fmt.Errorf("kind %s: %w", kind, err)
		}
		return []preTokenizer{p}, nil
	}
	switch kind {
	case "Split":
		return one(parseSplit(raw))
	case "ByteLevel":
		return one(parseByteLevel(raw))
	case "Metaspace":
		return one(parseMetaspace(raw))
	case "Digits":
		var d struct {
			IndividualDigits bool `json:"individual_digits"`
		}
		err := json.Unmarshal(raw, &d)
		return one(digits(d.IndividualDigits), err)
	case "Sequence":
		var s struct {
			PreTokenizers []json.RawMessage `json:"pretokenizers"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		var seq []preTokenizer
		for _, r := range s.PreTokenizers {
			p, err := parsePreTokenizer(r, depth+1)
			if err != nil {
				return nil, err
			}
			seq = append(seq, p...)
		}
		return seq, nil
	}
	return nil, unknownKind(kind, "Split", "ByteLevel", "Metaspace", "Digits", "Sequence")
}

func parseSplit(raw json.RawMessage) (preTokenizer, error) {
	var s struct {
		Pattern  patternFile `json:"pattern"`
		Behavior string      `json:"behavior"`
		Invert   bool        `json:"invert"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	b, ok := behaviorNames[s.Behavior]
	if !ok {
		return nil, fmt.Errorf("behavior %q is not one of Isolated, Removed, Contiguous, MergedWithPrevious, MergedWithNext", s.Behavior)
	}
	literal, re, err := s.Pattern.parse()
	if err != nil {
		return nil, err
	}
	find := func(text string) []segment { return findLiteral(text, literal) }
	if re != nil {
		find = re.segments
	}
	return splitter{find: find, behavior: b, invert: s.Invert}, nil
}

func parseByteLevel(raw json.RawMessage) (preTokenizer, error) {
	b := struct {
		AddPrefixSpace bool `json:"add_prefix_space"`
		UseRegex       bool `json:"use_regex"`
	}{AddPrefixSpace: true, UseRegex: true}
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, err
	}
	p := &byteLevel{addPrefixSpace: b.AddPrefixSpace}
	var err error
	if b.UseRegex {
		p.useRegex, err = newPattern(gpt2Pattern)
	}
	return p, err
}

// keepBytesLast lets the model map bytes to characters where nothing after ByteLevel looks at the characters.
func keepBytesLast(stages []preTokenizer) bool {
	if len(stages) == 0 {
		return false
	}
	b, ok := stages[len(stages)-1].(*byteLevel)
	if ok {
		b.keepBytes = true
	}
	return ok
}

func parseMetaspace(raw json.RawMessage) (preTokenizer, error) {
	replacement, scheme, split, err := readMetaspace(raw)
	return metaspace{replacement, scheme, split}, err
}

// readMetaspace reads what the pre-tokenizer and the decoder called Metaspace have in common.
func readMetaspace(raw json.RawMessage) (replacement string, scheme prependScheme, split bool, err error) {
	m := struct {
		Replacement    string `json:"replacement"`
		AddPrefixSpace *bool  `json:"add_prefix_space"`
		PrependScheme  string `json:"prepend_scheme"`
		Split          bool   `json:"split"`
	}{PrependScheme: "always", Split: true}
	if err := json.Unmarshal(raw, &m); err != nil {
		return "", 0, false, err
	}
	if utf8.RuneCountInString(m.Replacement) != 1 {
		return "", 0, false, fmt.Errorf("replacement %q is not one character", m.Replacement)
	}
	scheme, ok := map[string]prependScheme{"always": prependAlways, "first": prependFirst, "never": prependNever}[m.PrependScheme]
	if !ok {
		return "", 0, false, fmt.Errorf("prepend_scheme %q is not one of always, first, never", m.PrependScheme)
	}
	if m.AddPrefixSpace != nil && !*m.AddPrefixSpace {
		scheme = prependNever // the older spelling
	}
	return m.Replacement, scheme, m.Split, nil
}
