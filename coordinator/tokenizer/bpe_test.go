package tokenizer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

// slowMerge is BPE as it is defined: find the best pair anywhere, merge it, start again.
func slowMerge(ids []int32, merges map[pair]merge) []int32 {
	for {
		best, at := merge{}, -1
		for i := 1; i < len(ids); i++ {
			if m, ok := merges[pair{ids[i-1], ids[i]}]; ok && (at < 0 || m.rank < best.rank) {
				best, at = m, i-1
			}
		}
		if at < 0 {
			return ids
		}
		ids = append(append(ids[:at:at], best.id), ids[at+2:]...)
	}
}

func TestMergeAgainstDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// A vocabulary over two or three letters, in which every token but the letters has at least one merge.
		letters := rapid.IntRange(1, 3).Draw(t, "letters")
		tokens := []string{"a", "b", "c"}[:letters]
		byToken := map[string]int32{}
		for i, x := range tokens {
			byToken[x] = int32(i)
		}
		merges := map[pair]merge{}
		for rank := range rapid.IntRange(0, 12).Draw(t, "merges") {
			left, right := rapid.SampledFrom(tokens).Draw(t, "left"), rapid.SampledFrom(tokens).Draw(t, "right")
			id, ok := byToken[left+right]
			if !ok {
				id = int32(len(tokens))
				byToken[left+right] = id
				tokens = append(tokens, left+right)
			}
			merges[pair{byToken[left], byToken[right]}] = merge{int32(rank), id}
		}
		ids := rapid.SliceOfN(rapid.Int32Range(0, int32(letters-1)), 0, 40).Draw(t, "ids")
		w := &word{}
		for _, id := range ids {
			w.add(id)
		}
		w.mergeAll(merges)
		var got []int32
		for i := int32(0); i >= 0 && len(w.symbols) > 0; i = w.symbols[i].next {
			got = append(got, w.symbols[i].id)
		}
		if want := slowMerge(slices.Clone(ids), merges); !slices.Equal(got, want) {
			t.Fatalf("%v: got %v, want %v", ids, got, want)
		}
	})
}

// Long pieces are cut before they are merged; uncut, they give the same ids.
func TestCuts(t *testing.T) {
	t.Parallel()
	tok := load(t, filepath.Join(tokenizersDir, "mixtral"))
	text, err := os.ReadFile(heldout)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.IntRange(0, len(text)-4000).Draw(t, "from")
		part := string(text[from : from+rapid.IntRange(1, 4000).Draw(t, "length")])
		part += rapid.StringOfN(rapid.SampledFrom([]rune("ab ▁\n\U0001f600中éz<>x0A")), 0, 300, -1).Draw(t, "more")
		piece := tok.normalizer.normalize(validUTF8(part))
		if got, want := tok.model.encode(nil, piece, false), tok.model.appendPiece(nil, piece, false); !slices.Equal(got, want) {
			t.Fatalf("%q: cut %v, uncut %v", piece, got, want)
		}
	})
}

// A megabyte without a border between words is one piece; in quadratic time this test would run for hours.
func TestLongWord(t *testing.T) {
	t.Parallel()
	letters := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = 'a' + byte(letters.IntN(26))
	}
	for name, texts := range map[string][]string{
		"qwen":    {string(random)},
		"mixtral": {strings.Repeat("a", 1<<20)},
		"o200k":   {strings.Repeat("A", 1<<18)},
		"gpt2":    {strings.Repeat(" ", 1<<18) + "a"},
	} {
		tok := load(t, filepath.Join(tokenizersDir, name))
		for _, text := range texts {
			ids := tok.Encode(text, false)
			if got := tok.Decode(ids, false); got != text {
				t.Errorf("%s: %.10q… of %d bytes comes back as %.10q… of %d bytes", name, text, len(text), got, len(got))
			}
		}
	}
}

func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	// The examples of the Unicode standard, section 3.9, tables 3-8 to 3-11, and ends of text; as Rust's from_utf8_lossy.
	for in, want := range map[string]string{
		"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41": "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA",
		"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41": "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA",
		"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42": "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB",
		"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41": "\uFFFD\uFFFD\uFFFD\uFFFDA",
		"a\xE4\xB8":                            "a\uFFFD",
		"é\xFFz":                               "é\uFFFDz",
		"":                                     "",
		"valid ü":                              "valid ü",
	} {
		if got := validUTF8(in); got != want {
			t.Errorf("validUTF8(%q) = %q, want %q", in, got, want)
		}
	}
	tok := load(t, filepath.Join(tokenizersDir, "qwen"))
	if got, want := tok.Encode("a\xFFb", false), tok.Encode("a\uFFFDb", false); !slices.Equal(got, want) {
		t.Errorf("invalid text gives %v, with U+FFFD %v", got, want)
	}
}

func TestStreamProperty(t *testing.T) {
	t.Parallel()
	var toks []*Tokenizer
	for _, name := range goldenNames {
		toks = append(toks, load(t, filepath.Join(tokenizersDir, name)))
	}
	rapid.Check(t, func(t *rapid.T) {
		tok := rapid.SampledFrom(toks).Draw(t, "tokenizer")
		ids := rapid.SliceOfN(rapid.OneOf(rapid.Int32Range(0, 300), rapid.Int32Range(-2, int32(tok.Size())+2)), 0, 30).Draw(t, "ids")
		skip := rapid.Bool().Draw(t, "skip")
		s := tok.NewStream(skip)
		var b strings.Builder
		for _, id := range ids {
			piece := s.Next(id)
			if piece != strings.ToValidUTF8(piece, "?") {
				t.Fatalf("%q splits a character", piece)
			}
			b.WriteString(piece)
		}
		b.WriteString(s.Flush())
		if want := tok.Decode(ids, skip); b.String() != want {
			t.Fatalf("%v: %q, want %q", ids, b.String(), want)
		}
	})
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	tok := load(t, demoDir)
	texts := make([]string, 50)
	want := make([][]int32, len(texts))
	for i := range texts {
		texts[i] = fmt.Sprintf("text number %d with words of its own: %x", i, i*7919)
		want[i] = load(t, demoDir).Encode(texts[i], true)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i, text := range texts {
				if got := tok.Encode(text, true); !slices.Equal(got, want[i]) {
					t.Errorf("%q: %v, want %v", text, got, want[i])
				}
			}
		})
	}
	wg.Wait()
}

// The cache is emptied when it is full, and stays right.
func TestCacheOverflow(t *testing.T) {
	t.Parallel()
	tok := load(t, demoDir)
	var all strings.Builder
	for i := range cacheShards * cacheShardEntries * 5 / 4 {
		fmt.Fprintf(&all, " %c%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26, 'a'+i/17576)
	}
	want := tok.Encode(all.String(), false)
	if got := tok.Encode(all.String(), false); !slices.Equal(got, want) {
		t.Error("the second time gives other ids")
	}
	if got := tok.Decode(want, false); got != all.String() {
		t.Error("the text comes back changed")
	}
}

func TestIDAndToken(t *testing.T) {
	t.Parallel()
	tok := load(t, filepath.Join(tokenizersDir, "qwen"))
	for token, want := range map[string]int32{"<|im_end|>": 2, "</think>": 4097, "Ġ": 223} {
		id, ok := tok.ID(token)
		if !ok || id != want {
			t.Errorf("ID(%q) = %d, %v, want %d", token, id, ok, want)
		}
		if back, ok := tok.Token(id); !ok || back != token {
			t.Errorf("Token(%d) = %q, %v", id, back, ok)
		}
	}
	if id, ok := tok.ID("no such token"); ok {
		t.Errorf("ID of no token: %d", id)
	}
	for _, id := range []int32{-1, 4100} {
		if token, ok := tok.Token(id); ok {
			t.Errorf("Token(%d) = %q", id, token)
		}
	}
	for id, want := range map[int32]bool{2: true, 4097: false, 300: false, -1: false, 5000: false} {
		if tok.IsSpecial(id) != want {
			t.Errorf("IsSpecial(%d) = %v", id, !want)
		}
	}
	data, err := json.Marshal(tok.Decode([]int32{-5, 1 << 30}, false))
	if err != nil || string(data) != `""` {
		t.Errorf("unknown ids decode to %s, %v", data, err)
	}
}
