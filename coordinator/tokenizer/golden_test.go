package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	tokenizersDir = "../../testdata/tokenizers"
	demoDir       = "../../demo/qwen3moe-2m"
	heldout       = "../../testdata/demo/heldout.txt"
)

var goldenNames = []string{"qwen", "gpt2", "smollm2", "llama3", "o200k", "deepseek", "tiny512", "mixtral"}

type golden struct {
	VocabSize int `json:"vocab_size"`
	Cases     []struct {
		Text           string
		IDs            []int32
		IDsWithSpecial []int32 `json:"ids_with_special"`
		Decoded        string
		DecodedSkip    string `json:"decoded_skip_special"`
	}
	RawIDs []struct {
		IDs     []int32
		Decoded string
	} `json:"raw_ids"`
	Streams []struct {
		IDs           []int32
		PrefixDecoded []string `json:"prefix_decoded"`
	}
}

func load(t testing.TB, dir string) *Tokenizer {
	t.Helper()
	tok, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func readGolden(t testing.TB, name string) golden {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(tokenizersDir, name, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Cases) != 200 || len(g.RawIDs) != 60 || len(g.Streams) != 24 {
		t.Fatalf("%s: %d cases, %d raw_ids, %d streams", name, len(g.Cases), len(g.RawIDs), len(g.Streams))
	}
	return g
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	for _, name := range goldenNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok, g := load(t, filepath.Join(tokenizersDir, name)), readGolden(t, name)
			if tok.Size() != g.VocabSize {
				t.Errorf("Size() = %d, want %d", tok.Size(), g.VocabSize)
			}
			for _, c := range g.Cases {
				got := tok.Encode(c.Text, false)
				if !slices.Equal(got, c.IDs) {
					t.Errorf("Encode(%q):\n got %v\nwant %v", c.Text, got, c.IDs)
				}
				want := c.IDsWithSpecial
				if want == nil {
					want = c.IDs
				}
				if got := tok.Encode(c.Text, true); !slices.Equal(got, want) {
					t.Errorf("Encode(%q, special):\n got %v\nwant %v", c.Text, got, want)
				}
				if got := tok.Decode(c.IDs, false); got != c.Decoded {
					t.Errorf("Decode(%v) = %q, want %q", c.IDs, got, c.Decoded)
				}
				if got := tok.Decode(c.IDs, true); got != c.DecodedSkip {
					t.Errorf("Decode(%v, skip) = %q, want %q", c.IDs, got, c.DecodedSkip)
				}
			}
			for _, c := range g.RawIDs {
				if got := tok.Decode(c.IDs, false); got != c.Decoded {
					t.Errorf("Decode(%v) = %q, want %q", c.IDs, got, c.Decoded)
				}
			}
		})
	}
}

// Each prefix of a stream, flushed, is the decoded prefix; what Next gave so far is a prefix of it and ends with a whole character.
func TestGoldenStreams(t *testing.T) {
	t.Parallel()
	for _, name := range goldenNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok, g := load(t, filepath.Join(tokenizersDir, name)), readGolden(t, name)
			for _, c := range g.Streams {
				for n, want := range c.PrefixDecoded {
					s := tok.NewStream(false)
					var pieces []string
					for _, id := range c.IDs[:n+1] {
						pieces = append(pieces, s.Next(id))
					}
					certain := strings.Join(pieces, "")
					if got := certain + s.Flush(); got != want {
						t.Errorf("%v: %s", c.IDs[:n+1], cmp.Diff(want, got))
					}
					if last := c.PrefixDecoded[len(c.PrefixDecoded)-1]; !strings.HasPrefix(last, certain) {
						t.Errorf("%v: %q was given as certain, but the whole is %q", c.IDs, certain, last)
					}
				}
			}
		})
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	tok := load(t, demoDir)
	text, err := os.ReadFile(heldout)
	if err != nil {
		t.Fatal(err)
	}
	ids := tok.Encode(string(text), true)
	// reference.json: 56 836 predicted tokens; the first of each window of 256 ids is not predicted.
	windows := (len(ids) + 255) / 256
	if got, want := len(ids)-windows, 56836; got != want {
		t.Errorf("%d predicted tokens, want %d", got, want)
	}
	if got := tok.Decode(ids, false); got != string(text) {
		t.Error("heldout.txt does not survive Encode and Decode")
	}
}
