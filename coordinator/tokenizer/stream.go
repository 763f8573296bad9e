package tokenizer

import "strings"

// Stream decodes token by token and never splits a UTF-8 character. The texts that Next and Flush give, joined, are what Decode
// gives for all ids. A Stream belongs to one goroutine.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	first       stage
	out         sink
}

// sink is the end of the decoders.
type sink struct{ text strings.Builder }

func (s *sink) push(f fragment) { s.text.WriteString(f.text) }
func (s *sink) flush()          {}

func (s *sink) take() string {
	text := s.text.String()
	s.text.Reset()
	return text
}

// NewStream starts a streaming decode.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	s := &Stream{t: t, skipSpecial: skipSpecial}
	s.start()
	return s
}

func (s *Stream) start() {
	s.first = &s.out
	for i := len(s.t.decoders) - 1; i >= 0; i-- {
		s.first = s.t.decoders[i](s.first)
	}
}

func (s *Stream) push(id int32) {
	if id < 0 || int(id) >= len(s.t.tokens) || !s.t.known[id] || s.skipSpecial && s.t.special[id] {
		return
	}
	s.first.push(fragment{s.t.tokens[id], true})
}

// Next takes an id and gives the text that is now certain (possibly "").
func (s *Stream) Next(id int32) string {
	s.push(id)
	return s.out.take()
}

// Flush gives what is left at the end, incomplete characters as U+FFFD. The stream then starts anew.
func (s *Stream) Flush() string {
	s.first.flush()
	s.start()
	return s.out.take()
}
