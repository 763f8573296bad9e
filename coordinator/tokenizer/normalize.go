package tokenizer

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites text before it is split.
type normalizer interface {
	normalize(s string) string
}

type normalizerSequence []normalizer

func (n normalizerSequence) normalize(s string) string {
	for _, x := range n {
		s = x.normalize(s)
	}
	return s
}

type unicodeForm norm.Form

func (f unicodeForm) normalize(s string) string {
	form := norm.Form(f)
	if form.IsNormalString(s) && !hasLongMarkRun(s) {
		return s
	}
	return normalizeUnicode(form, s)
}

// lowercase maps each character on its own, as Hugging Face does (no final sigma).
type lowercase struct{}

func (lowercase) normalize(s string) string {
	if !strings.ContainsRune(s, 'İ') {
		return strings.ToLower(s)
	}
	// The only character whose lower case is two characters in every language (Unicode, SpecialCasing.txt).
	var b strings.Builder
	for _, r := range s {
		if r == 'İ' {
			b.WriteString("i̇")
		} else {
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

type prepend string

func (p prepend) normalize(s string) string {
	if s == "" {
		return s
	}
	return string(p) + s
}

// replaceString replaces a literal, left to right; an empty literal matches nowhere.
type replaceString struct{ pattern, content string }

func (r replaceString) normalize(s string) string {
	if r.pattern == "" {
		return s
	}
	return strings.ReplaceAll(s, r.pattern, r.content)
}

type replacePattern struct {
	pattern *pattern
	content string
}

func (r replacePattern) normalize(s string) string {
	var b strings.Builder
	for _, m := range r.pattern.segments(s) {
		if m.match {
			b.WriteString(r.content)
		} else {
			b.WriteString(s[m.start:m.end])
		}
	}
	return b.String()
}
