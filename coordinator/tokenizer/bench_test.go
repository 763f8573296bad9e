package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func BenchmarkEncode(b *testing.B) {
	text, err := os.ReadFile(heldout)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range goldenNames {
		tok := load(b, filepath.Join(tokenizersDir, name))
		for kind, s := range map[string]string{"heldout": string(text), "word": strings.Repeat("abcdefghij", 1<<17/10)} {
			b.Run("tokenizer="+name+",text="+kind, func(b *testing.B) {
				b.SetBytes(int64(len(s)))
				for range b.N {
					tok.Encode(s, false)
				}
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	text, err := os.ReadFile(heldout)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"qwen", "mixtral"} {
		tok := load(b, filepath.Join(tokenizersDir, name))
		ids := tok.Encode(string(text), false)
		b.Run("tokenizer="+name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for range b.N {
				tok.Decode(ids, false)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for range b.N {
		load(b, filepath.Join(tokenizersDir, "qwen"))
	}
}
