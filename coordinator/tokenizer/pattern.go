package tokenizer

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// Limits of one match, against hostile patterns. Hugging Face's engine has such limits too; where one is hit, the rest of the text
// counts as unmatched, here and there.
const (
	maxPatternLength = 64 << 10
	maxBacktrack     = 4 << 20          // entries of the backtracking stack: 32 MiB
	matchTimeout     = 10 * time.Second // of patterns that are not known to take linear time
)

// linearPatterns are the pre-tokenizer patterns of released models, which match in linear time. They run without a timeout, because
// regexp2 needs a clock goroutine for one.
var linearPatterns = map[string]bool{
	gpt2Pattern: true,
	// Qwen 2 and 3
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: true,
	// Llama 3
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: true,
	// o200k (GPT-4o, gpt-oss)
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`: true,
	// DeepSeek V3, three in sequence
	`\p{N}{1,3}`:   true,
	`[一-龥぀-ゟ゠-ヿ]+`: true,
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+": true,
}

// pattern is a regular expression in the syntax of tokenizer.json (Oniguruma).
type pattern struct {
	re *regexp2.Regexp
}

func newPattern(source string) (*pattern, error) {
	if len(source) > maxPatternLength {
		return nil, fmt.Errorf("pattern of %d bytes is too long (at most %d)", len(source), maxPatternLength)
	}
	translated, err := translateOniguruma(source)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", source, err)
	}
	re, err := compilePattern(translated)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", source, err)
	}
	if !linearPatterns[source] {
		re.MatchTimeout = matchTimeout
	}
	return &pattern{re}, nil
}

// compilePattern turns a panic of the regular expression compiler into an error.
func compilePattern(source string) (re *regexp2.Regexp, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not a valid regular expression: %v", r)
		}
	}()
	return regexp2.Compile(source, regexp2.OptionMaxBacktrackingStackSize(maxBacktrack))
}

// segments gives the matches and gaps of s in order. If a match hits a limit, what is left is a gap.
func (p *pattern) segments(s string) []segment {
	var c segmenter
	if s == "" {
		return nil
	}
	runes := []rune(s)
	ascii := len(runes) == len(s)
	char, byteAt := 0, 0 // byteAt is the byte offset of character char
	offset := func(i int) int {
		if ascii {
			return i
		}
		for ; char < i; char++ {
			byteAt += utf8.RuneLen(runes[char])
		}
		return byteAt
	}
	c.segments = make([]segment, 0, len(s)/4+1)
	// The error says that a limit was hit, and the matches so far stand.
	_ = p.re.FindRunesMatches(runes, 0, func(m regexp2.MatchView) bool {
		index, length, _ := m.GroupRange(0)
		start := offset(index)
		c.match(start, offset(index+length))
		return true
	})
	return c.finish(len(s))
}
