package synth

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed tokenizer/tokenizer.json
var tokenizer512 []byte

//go:embed tokenizer/tokenizer_config.json
var tokenizerConfig512 []byte

// tokens is a tokenizer for a vocabulary of at least its size; ids above it have no text.
type tokens struct {
	bos, eos                   int
	tokenizer, tokenizerConfig []byte
}

// tokensFor gives the 512-token BPE where it fits, else a tokenizer of the 256 bytes and an end token.
func tokensFor(vocabulary int) (*tokens, error) {
	if vocabulary >= 512 {
		return &tokens{bos: 1, eos: 2, tokenizer: tokenizer512, tokenizerConfig: tokenizerConfig512}, nil
	}
	if vocabulary <= 256 {
		return nil, fmt.Errorf("synth: a vocabulary of %d is too small; the 256 bytes and an end token need 257", vocabulary)
	}
	return byteTokens()
}

// byteTokens makes a byte-level tokenizer without merges: token i is byte i, 256 ends the text.
func byteTokens() (*tokens, error) {
	const end = "<|endoftext|>"
	vocabulary := map[string]int{end: 256}
	for b, r := range byteRunes() {
		vocabulary[string(r)] = b
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	tokenizer, err := json.Marshal(map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil,
		"added_tokens": []any{map[string]any{"id": 256, "content": end, "single_word": false, "lstrip": false, "rstrip": false,
			"normalized": false, "special": true}},
		"pre_tokenizer": byteLevel, "post_processor": nil, "decoder": byteLevel,
		"model": map[string]any{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil,
			"end_of_word_suffix": nil, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
			"vocab": vocabulary, "merges": []any{}},
	})
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end, "bos_token": nil,
		"add_bos_token": false, "clean_up_tokenization_spaces": false})
	if err != nil {
		return nil, err
	}
	return &tokens{bos: 256, eos: 256, tokenizer: tokenizer, tokenizerConfig: config}, nil
}

// byteRunes gives the printable character that stands for each byte in byte-level vocabularies: visible Latin-1 characters
// stand for themselves, the others for the characters from 256 on, in order (GPT-2's bytes_to_unicode).
func byteRunes() [256]rune {
	var runes [256]rune
	spare := rune(256)
	for b := range runes {
		switch {
		case b >= '!' && b <= '~', b >= 0xa1 && b <= 0xac, b >= 0xae:
			runes[b] = rune(b)
		default:
			runes[b] = spare
			spare++
		}
	}
	return runes
}
