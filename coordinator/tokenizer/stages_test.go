package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stages holds what Hugging Face tokenizers gives for each stage alone (testdata/tokenizers/make_stages_golden.py).
type stages struct {
	PreTokenizers []struct {
		Spec  json.RawMessage
		Cases []struct {
			Text   string
			Pieces []string
		}
	} `json:"pre_tokenizers"`
	BadPatterns []string `json:"bad_patterns"`
	Normalizers []struct {
		Spec  json.RawMessage
		Cases []struct{ Text, Normalized string }
	}
	Decoders []struct {
		Spec  json.RawMessage
		Cases []struct {
			Tokens []string
			Text   string
		}
	}
	Tokenizers []struct {
		Name      string
		Tokenizer json.RawMessage
		Cases     []struct {
			Text        string
			IDs         []int32
			WithSpecial []int32 `json:"with_special"`
			Decoded     string
			DecodedSkip string `json:"decoded_skip"`
		}
	}
}

func readStages(t *testing.T) stages {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(tokenizersDir, "stages_golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s stages
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPreTokenizers(t *testing.T) {
	t.Parallel()
	for _, p := range readStages(t).PreTokenizers {
		stages, err := parsePreTokenizer(p.Spec, 0)
		if err != nil {
			t.Errorf("%s: %v", p.Spec, err)
			continue
		}
		for _, c := range p.Cases {
			if c.Text == "" {
				continue // there are no empty pieces
			}
			pieces := []piece{{text: c.Text, id: noID, first: true}}
			for _, s := range stages {
				pieces = s.preTokenize(pieces)
			}
			var got []string
			for _, x := range pieces {
				got = append(got, x.text)
			}
			if !slices.Equal(got, c.Pieces) {
				t.Errorf("%s of %q:\n got %q\nwant %q", p.Spec, c.Text, got, c.Pieces)
			}
		}
	}
}

func TestBadPatterns(t *testing.T) {
	t.Parallel()
	for _, p := range readStages(t).BadPatterns {
		if _, err := newPattern(p); err == nil {
			t.Errorf("%q is taken for a pattern", p)
		}
	}
}

func TestNormalizers(t *testing.T) {
	t.Parallel()
	for _, p := range readStages(t).Normalizers {
		n, err := parseNormalizer(p.Spec, 0)
		if err != nil {
			t.Errorf("%s: %v", p.Spec, err)
			continue
		}
		for _, c := range p.Cases {
			if got := n.normalize(c.Text); got != c.Normalized {
				t.Errorf("%s of %q:\n got %+q\nwant %+q", p.Spec, c.Text, got, c.Normalized)
			}
		}
	}
}

// Decoders give the same however their input is cut into fragments.
func TestDecoders(t *testing.T) {
	t.Parallel()
	for _, p := range readStages(t).Decoders {
		specs, err := parseDecoder(p.Spec, 0)
		if err != nil {
			t.Errorf("%s: %v", p.Spec, err)
			continue
		}
		for _, c := range p.Cases {
			for _, cut := range []bool{false, true} {
				out := &sink{}
				first := stage(out)
				for _, s := range slices.Backward(specs) {
					first = s(first)
				}
				for _, token := range c.Tokens {
					if cut {
						for _, r := range token {
							first.push(fragment{text: string(r)})
						}
						token = ""
					}
					first.push(fragment{token, true})
				}
				first.flush()
				if got := out.take(); got != c.Text {
					t.Errorf("%s of %q (cut: %v):\n got %q\nwant %q", p.Spec, c.Tokens, cut, got, c.Text)
				}
			}
		}
	}
}

func TestTokenizers(t *testing.T) {
	t.Parallel()
	for _, p := range readStages(t).Tokenizers {
		tok, err := New(p.Tokenizer, nil)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		for _, c := range p.Cases {
			if got := tok.Encode(c.Text, false); !slices.Equal(got, c.IDs) {
				t.Errorf("%s: Encode(%q):\n got %v\nwant %v", p.Name, c.Text, got, c.IDs)
			}
			if got := tok.Encode(c.Text, true); !slices.Equal(got, c.WithSpecial) {
				t.Errorf("%s: Encode(%q, special):\n got %v\nwant %v", p.Name, c.Text, got, c.WithSpecial)
			}
			if got := tok.Decode(c.IDs, false); got != c.Decoded {
				t.Errorf("%s: Decode(%v):\n got %q\nwant %q", p.Name, c.IDs, got, c.Decoded)
			}
			if got := tok.Decode(c.IDs, true); got != c.DecodedSkip {
				t.Errorf("%s: Decode(%v, skip):\n got %q\nwant %q", p.Name, c.IDs, got, c.DecodedSkip)
			}
			checkStream(t, tok, c.IDs)
		}
	}
}

// checkStream compares the pieces of a stream with Decode.
func checkStream(t *testing.T, tok *Tokenizer, ids []int32) {
	t.Helper()
	for _, skip := range []bool{false, true} {
		s := tok.NewStream(skip)
		var b strings.Builder
		for _, id := range ids {
			b.WriteString(s.Next(id))
		}
		b.WriteString(s.Flush())
		if got, want := b.String(), tok.Decode(ids, skip); got != want {
			t.Errorf("stream of %v: %q, Decode gives %q", ids, got, want)
		}
	}
}

// The patterns of released models run without regexp2's clock goroutine.
func TestLinearPatterns(t *testing.T) {
	t.Parallel()
	for _, name := range goldenNames {
		var f struct {
			PreTokenizer json.RawMessage `json:"pre_tokenizer"`
		}
		data, err := os.ReadFile(filepath.Join(tokenizersDir, name, "tokenizer.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &f); err != nil {
			t.Fatal(err)
		}
		var sequence struct {
			PreTokenizers []struct{ Pattern patternFile } `json:"pretokenizers"`
		}
		if err := json.Unmarshal(f.PreTokenizer, &sequence); err != nil {
			t.Fatal(err)
		}
		for _, p := range sequence.PreTokenizers {
			if p.Pattern.Regex != nil && !linearPatterns[*p.Pattern.Regex] {
				t.Errorf("%s: %q is not among linearPatterns", name, *p.Pattern.Regex)
			}
		}
	}
}
