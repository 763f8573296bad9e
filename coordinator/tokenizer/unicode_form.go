package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxMarkRun is the number of combining marks on one character from which x/text inserts a combining grapheme joiner
// (Stream-Safe Text Format, UAX 15 section 13). Hugging Face's normalizers don't.
const maxMarkRun = 30

// hasLongMarkRun says whether x/text would insert a joiner. Decomposition makes runs longer by at most 3 marks a character, so
// it looks for shorter runs than maxMarkRun.
func hasLongMarkRun(s string) bool {
	run := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			run, i = 0, i+1
			continue
		}
		p := norm.NFD.PropertiesString(s[i:])
		if p.CCC() != 0 || p.LeadCCC() != 0 {
			if run++; run > maxMarkRun/4 {
				return true
			}
		} else {
			run = 0
		}
		i += max(1, p.Size())
	}
	return false
}

// normalizeUnicode is form.String without the joiners.
func normalizeUnicode(form norm.Form, s string) string {
	if !hasLongMarkRun(s) {
		return form.String(s)
	}
	decompose := norm.NFD
	if form == norm.NFKC || form == norm.NFKD {
		decompose = norm.NFKD
	}
	var chars []rune
	for _, r := range s {
		if d := decompose.PropertiesString(string(r)).Decomposition(); d != nil {
			chars = append(chars, []rune(string(d))...)
		} else if r >= hangulBase && r < hangulEnd {
			chars = append(chars, []rune(decompose.String(string(r)))...)
		} else {
			chars = append(chars, r)
		}
	}
	// Canonical order: a stable sort of each run of marks by combining class.
	for i := 0; i < len(chars); {
		j := i
		for j < len(chars) && combiningClass(chars[j]) != 0 {
			j++
		}
		slices.SortStableFunc(chars[i:j], func(a, b rune) int { return int(combiningClass(a)) - int(combiningClass(b)) })
		i = j + 1
	}
	if form == norm.NFC || form == norm.NFKC {
		chars = compose(chars)
	}
	return string(chars)
}

const hangulBase, hangulEnd = 0xAC00, 0xD7A4

func combiningClass(r rune) uint8 {
	if r < 0x300 {
		return 0
	}
	return norm.NFD.PropertiesString(string(r)).CCC()
}

// compose is the canonical composition algorithm (Unicode, section 3.11, D117); whether two characters have a primary composite
// is asked of x/text.
func compose(chars []rune) []rune {
	out := make([]rune, 0, len(chars))
	starter := -1    // index in out
	last := uint8(0) // class of the last character behind the starter that was kept
	var b strings.Builder
	for _, r := range chars {
		class := combiningClass(r)
		if starter >= 0 && (starter == len(out)-1 || last != 0 && last < class) {
			b.Reset()
			b.WriteRune(out[starter])
			b.WriteRune(r)
			if c := norm.NFC.String(b.String()); utf8.RuneCountInString(c) == 1 {
				out[starter], _ = utf8.DecodeRuneInString(c)
				continue
			}
		}
		if class == 0 {
			starter = len(out)
		}
		last = class
		out = append(out, r)
	}
	return out
}
