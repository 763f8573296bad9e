package engine

import (
	"fmt"

	"github.com/moepool/moepool/coordinator/attention"
)

// Sequence is one sequence's KV cache and length. It belongs to the engine that made it; its methods wait for a step in progress.
type Sequence struct {
	engine *Engine
	cache  *attention.Cache
	length int
	closed bool
}

// NewSequence gives an empty sequence. It takes memory as it grows; Close gives it back.
func (e *Engine) NewSequence() (*Sequence, error) {
	e.step.Lock()
	defer e.step.Unlock()
	if e.closed {
		return nil, fmt.Errorf("engine: %w", ErrClosed)
	}
	cache, err := attention.NewCache(e.cacheShape)
	if err != nil {
		return nil, err
	}
	return &Sequence{engine: e, cache: cache}, nil
}

// Length is the number of positions computed.
func (s *Sequence) Length() int {
	s.engine.step.Lock()
	defer s.engine.step.Unlock()
	return s.length
}

// Truncate forgets all positions from length on; the next chunk continues there.
func (s *Sequence) Truncate(length int) error {
	s.engine.step.Lock()
	defer s.engine.step.Unlock()
	if s.closed {
		return fmt.Errorf("sequence: %w", ErrClosed)
	}
	if length < 0 || length > s.length {
		return fmt.Errorf("a sequence of %d positions can't be cut to %d", s.length, length)
	}
	s.length = length
	s.cache.Truncate(length)
	return nil
}

// Close gives the sequence's memory back.
func (s *Sequence) Close() {
	s.engine.step.Lock()
	defer s.engine.step.Unlock()
	s.closed = true
	s.length = 0
	s.cache.Close()
}

// Bytes is the memory that the sequence's cache holds.
func (s *Sequence) Bytes() int64 {
	s.engine.step.Lock()
	defer s.engine.step.Unlock()
	return s.cache.Bytes()
}
