// Package tokenizer turns text into token ids and back, from a Hugging Face tokenizer.json (byte-level BPE and
// SentencePiece-like BPE with byte fallback).
package tokenizer

// Tokenizer is an immutable tokenizer; its methods may be called from any goroutine.
type Tokenizer struct{}

// Load reads tokenizer.json (and what it needs of tokenizer_config.json) in dir.
func Load(dir string) (*Tokenizer, error) { panic("skeleton") }

// Encode gives the ids of text; special tokens in the text are recognised. addSpecial applies the post-processor (bos/eos).
func (t *Tokenizer) Encode(text string, addSpecial bool) []int32 { panic("skeleton") }

// Decode gives the text of ids; skipSpecial leaves special tokens out. Invalid UTF-8 becomes U+FFFD as in Rust's lossy conversion.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string { panic("skeleton") }

// Size is the number of ids (largest id + 1).
func (t *Tokenizer) Size() int { panic("skeleton") }

// ID finds a token by its exact content, such as "<|im_end|>".
func (t *Tokenizer) ID(token string) (int32, bool) { panic("skeleton") }

// Stream decodes token by token and never splits a UTF-8 character.
type Stream struct{}

// NewStream starts a streaming decode.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream { panic("skeleton") }

// Next takes an id and gives the text that is now certain (possibly "").
func (s *Stream) Next(id int32) string { panic("skeleton") }

// Flush gives what is left at the end, incomplete characters as U+FFFD.
func (s *Stream) Flush() string { panic("skeleton") }
