// Package tokenizer turns text into token ids and back, from a Hugging Face tokenizer.json with a BPE model: byte-level BPE
// (GPT-2, Qwen, Llama 3, DeepSeek, o200k) and SentencePiece-like BPE with byte fallback (Llama 2, Mixtral).
//
// The stages are those of Hugging Face tokenizers, one file each, and their results are the same ids:
//
//	text ─▶ added tokens (exact content) ─▶ normalizer ─▶ added tokens (normalized) ─▶ pre-tokenizer ─▶ BPE ─▶ post-processor ─▶ ids
//	ids ─▶ token strings ─▶ decoders, each a streaming stage ─▶ text
//
// Offsets, truncation, padding, pairs of sequences, dropout and training are not here: nothing in moepool needs them.
// Kinds of stages that are not known are errors of Load that name the kind: a tokenizer that silently leaves out a stage gives
// wrong ids.
//
// It owns the meaning of tokenizer.json. It must not know models, chat templates or requests.
package tokenizer
