package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// GPT-2 writes each byte as one printable character, so that a vocabulary of bytes is a vocabulary of text: bytes that are
// printable in Latin-1 stand for themselves, the other 68 follow from U+0100 (openai/gpt-2, encoder.py, bytes_to_unicode).
var (
	byteToChar  [256]string
	charToByte  [324]int16 // by character; -1 where the character stands for no byte
	gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
)

func init() {
	for i := range charToByte {
		charToByte[i] = -1
	}
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) {
			r = next
			next++
		}
		byteToChar[b] = string(r)
		charToByte[r] = int16(b)
	}
}

func toByteLevel(s string) string {
	var b strings.Builder
	b.Grow(2 * len(s))
	for i := range len(s) {
		b.WriteString(byteToChar[s[i]])
	}
	return b.String()
}

// appendByteLevel appends the bytes that a token's characters stand for; a token with any other character (an added token with a
// space, say) stands for its own bytes.
func appendByteLevel(dst []byte, token string) []byte {
	start := len(dst)
	for i := 0; i < len(token); {
		r, n := rune(token[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(token[i:])
		}
		if int(r) >= len(charToByte) || charToByte[r] < 0 {
			return append(dst[:start], token...)
		}
		dst = append(dst, byte(charToByte[r]))
		i += n
	}
	return dst
}
