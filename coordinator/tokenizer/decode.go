package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// fragment is a part of a token string between two decoders. Decoders that join tokens (ByteLevel, Fuse) make one endless token
// of many fragments, so that text can come out before the last id is in.
type fragment struct {
	text string
	end  bool // the token ends here
}

// stage is a running decoder. What it writes depends only on the tokens that it got, however they are cut into fragments, so that
// Decode and Stream agree by construction.
type stage interface {
	push(f fragment)
	flush() // no more tokens; passes it on
}

// decoderSpec starts a decoder that writes to next.
type decoderSpec func(next stage) stage

func parseDecoder(raw json.RawMessage, depth int) ([]decoderSpec, error) {
	if isNull(raw) {
		if depth > 0 {
			return nil, nil
		}
		return []decoderSpec{func(next stage) stage { return &joinSpaces{next: next} }}, nil
	}
	if depth > maxDepth {
		return nil, errTooDeep
	}
	kind, err := kindOf(raw)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "ByteLevel":
		return []decoderSpec{func(next stage) stage { return &byteLevelDecoder{next: next} }}, nil
	case "ByteFallback":
		return []decoderSpec{func(next stage) stage { return &byteFallbackDecoder{next: next} }}, nil
	case "Fuse":
		return []decoderSpec{func(next stage) stage { return &fuse{next} }}, nil
	case "Replace":
		literal, re, content, err := parseReplace(raw)
		if err != nil {
			return nil, fmt.Errorf("kind Replace: %w", err)
		}
		if re != nil {
			return []decoderSpec{func(next stage) stage { return &replaceDecoder{next: next, whole: replacePattern{re, content}} }}, nil
		}
		return []decoderSpec{func(next stage) stage {
			return &replaceDecoder{next: next, whole: replaceString{literal, content}, literal: literal}
		}}, nil
	case "Strip":
		var s struct {
			Content string `json:"content"`
			Start   uint32 `json:"start"`
			Stop    uint32 `json:"stop"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		r, n := utf8.DecodeRuneInString(s.Content)
		if n == 0 || n != len(s.Content) {
			return nil, fmt.Errorf("kind Strip: content %q is not one character", s.Content)
		}
		return []decoderSpec{func(next stage) stage {
			return &strip{next: next, content: r, start: s.Start, stop: s.Stop}
		}}, nil
	case "Metaspace":
		replacement, scheme, _, err := readMetaspace(raw)
		if err != nil {
			return nil, fmt.Errorf("kind Metaspace: %w", err)
		}
		return []decoderSpec{func(next stage) stage {
			return &metaspaceDecoder{next: next, replacement: replacement, drop: scheme != prependNever}
		}}, nil
	case "Sequence":
		var s struct {
			Decoders []json.RawMessage `json:"decoders"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		var seq []decoderSpec
		for _, r := range s.Decoders {
			d, err := parseDecoder(r, depth+1)
			if err != nil {
				return nil, err
			}
			seq = append(seq, d...)
		}
		return seq, nil
	}
	return nil, unknownKind(kind, "ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace", "Sequence")
}

// joinSpaces is what happens without a decoder: tokens are joined with spaces.
type joinSpaces struct {
	next   stage
	inside bool // not at the beginning of the first token
	begun  bool // inside a token
}

func (d *joinSpaces) push(f fragment) {
	if d.inside && !d.begun {
		f.text = " " + f.text
	}
	d.inside, d.begun = true, !f.end
	d.next.push(f)
}

func (d *joinSpaces) flush() { d.next.flush() }

// fuse makes one token of all.
type fuse struct{ next stage }

func (d *fuse) push(f fragment) {
	if f.text != "" {
		d.next.push(fragment{text: f.text})
	}
}

func (d *fuse) flush() {
	d.next.push(fragment{end: true})
	d.next.flush()
}

// whole collects the fragments of a token for decoders that must see all of it.
type whole struct{ partial strings.Builder }

// add gives the token when its last fragment comes.
func (w *whole) add(f fragment) (string, bool) {
	if f.end && w.partial.Len() == 0 {
		return f.text, true
	}
	w.partial.WriteString(f.text)
	if !f.end {
		return "", false
	}
	s := w.partial.String()
	w.partial.Reset()
	return s, true
}

// metaspaceDecoder writes the replacement as a space; in the first token it drops it, if one was put there.
type metaspaceDecoder struct {
	next        stage
	replacement string
	drop        bool
	later       bool // past the first token
}

func (d *metaspaceDecoder) push(f fragment) {
	space := " "
	if d.drop && !d.later {
		space = ""
	}
	if f.end {
		d.later = true
	}
	f.text = strings.ReplaceAll(f.text, d.replacement, space)
	d.next.push(f)
}

func (d *metaspaceDecoder) flush() { d.next.flush() }

// replaceDecoder replaces a pattern inside each token.
type replaceDecoder struct {
	next    stage
	whole   normalizer
	literal string // "" for a regular expression, which must see the whole token
	held    string // the end of what came, which could be the beginning of a match
}

func (d *replaceDecoder) push(f fragment) {
	text := d.held + f.text
	d.held = ""
	if f.end {
		d.next.push(fragment{d.whole.normalize(text), true})
		return
	}
	if d.literal == "" {
		d.held = text
		return
	}
	// What lies behind the last match is final up to the longest suffix with which a match could begin.
	done := strings.LastIndex(text, d.literal)
	if done >= 0 {
		// Matches do not overlap: count them from the left.
		done = 0
		for {
			i := strings.Index(text[done:], d.literal)
			if i < 0 {
				break
			}
			done += i + len(d.literal)
		}
	} else {
		done = 0
	}
	keep := 0
	for n := min(len(d.literal)-1, len(text)-done); n > 0; n-- {
		if strings.HasSuffix(text, d.literal[:n]) {
			keep = n
			break
		}
	}
	d.held = text[len(text)-keep:]
	if out := d.whole.normalize(text[:len(text)-keep]); out != "" {
		d.next.push(fragment{text: out})
	}
}

func (d *replaceDecoder) flush() { d.next.flush() }

// strip removes up to start copies of a character from the beginning of each token, and up to stop from its end.
type strip struct {
	next        stage
	content     rune
	start, stop uint32

	begun bool   // the beginning is done
	cut   uint32 // removed from the beginning
	held  uint32 // copies at the end that may have to go
}

func (d *strip) push(f fragment) {
	var b strings.Builder
	for _, r := range f.text {
		if !d.begun && r == d.content && d.cut < d.start {
			d.cut++
			continue
		}
		d.begun = true
		if r == d.content {
			if d.held < d.stop {
				d.held++
				continue
			}
		} else {
			for ; d.held > 0; d.held-- {
				b.WriteRune(d.content)
			}
		}
		b.WriteRune(r)
	}
	if f.end {
		d.begun, d.cut, d.held = false, 0, 0
	}
	if b.Len() > 0 || f.end {
		d.next.push(fragment{b.String(), f.end})
	}
}

func (d *strip) flush() { d.next.flush() }
