package evaluation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
)

// Engine computes steps; *engine.Engine implements it.
type Engine interface {
	NewSequence() (*engine.Sequence, error)
	Step(ctx context.Context, chunks []engine.Chunk) ([]engine.Output, error)
	Context() int
}

// Windows cuts ids into consecutive windows of size ids; the last may be shorter.
func Windows(ids []int32, size int) [][]int32 {
	var windows [][]int32
	for len(ids) > 0 {
		n := min(size, len(ids))
		windows = append(windows, ids[:n])
		ids = ids[n:]
	}
	return windows
}

// Predicted is how many tokens of windows are predicted: all but the first of each.
func Predicted(windows [][]int32) int {
	n := 0
	for _, window := range windows {
		n += max(0, len(window)-1)
	}
	return n
}

// Feed is how windows are given to an engine: as prompts, or token by token as in use.
type Feed struct {
	// Chunk, above 0, computes one window at a time in the prefill phase, so many positions in a step.
	Chunk int
	// Rows, with Chunk 0, computes so many windows at once token by token in the decode phase: a step has the next position of each.
	// When a window ends, the next one takes its place.
	Rows int
	// Budget is the expert budget of the steps; nil is the engine's.
	Budget *budget.Policy
	// Progress is told how many tokens are predicted; it may be nil.
	Progress func(done int)
}

// place is a predicted position: of which window, and which of its positions gave the logits.
type place struct{ window, position int }

// predict computes each window on its own from position 0 and gives score each position's logits [vocabulary], which it may not keep;
// the id that follows the position is what the logits predict, and a window's last position is not computed. Positions of a window come
// in order. It gives the time that the engine's steps took.
func (f Feed) predict(ctx context.Context, e Engine, windows [][]int32, score func(at place, logits []float32) error) (time.Duration, error) {
	if f.Chunk < 0 || f.Chunk == 0 && f.Rows < 1 {
		return 0, fmt.Errorf("neither chunks (%d positions) nor rows (%d)", f.Chunk, f.Rows)
	}
	if Predicted(windows) == 0 {
		return 0, errors.New("the text has fewer than two tokens: there is nothing to predict")
	}
	for _, window := range windows {
		if len(window) > e.Context() {
			return 0, fmt.Errorf("a window has %d tokens, the context holds %d (--context)", len(window), e.Context())
		}
	}
	s := &steps{feed: f, engine: e, windows: windows, score: score}
	defer s.close()
	rows := f.Rows
	if f.Chunk > 0 {
		rows = 1
	}
	for {
		s.fill(rows)
		if len(s.seats) == 0 {
			return s.elapsed, nil
		}
		if err := s.step(ctx); err != nil {
			return s.elapsed, err
		}
	}
}

// steps is a text that is being computed.
type steps struct {
	feed    Feed
	engine  Engine
	windows [][]int32
	score   func(at place, logits []float32) error

	started int // windows that got a seat, or need none
	seats   []seat
	chunks  []engine.Chunk
	done    int
	elapsed time.Duration
}

// seat is a window that is being computed.
type seat struct {
	window   int
	position int // the next one
	sequence *engine.Sequence
}

// fill gives free seats to the next windows.
func (s *steps) fill(rows int) {
	for len(s.seats) < rows && s.started < len(s.windows) {
		if len(s.windows[s.started]) > 1 {
			s.seats = append(s.seats, seat{window: s.started})
		}
		s.started++
	}
}

// step computes and scores the next positions of all seats, and clears those whose window is done.
func (s *steps) step(ctx context.Context) error {
	s.chunks = s.chunks[:0]
	for i := range s.seats {
		at := &s.seats[i]
		if at.sequence == nil {
			var err error
			if at.sequence, err = s.engine.NewSequence(); err != nil {
				return err
			}
		}
		window := s.windows[at.window]
		chunk := engine.Chunk{Sequence: at.sequence, Phase: budget.Decode, Budget: s.feed.Budget, Logits: engine.AllLogits}
		to := at.position + 1
		if s.feed.Chunk > 0 {
			chunk.Phase = budget.Prefill
			to = min(at.position+s.feed.Chunk, len(window)-1) // the last id is only predicted
		}
		chunk.Tokens = window[at.position:to]
		s.chunks = append(s.chunks, chunk)
	}
	begin := time.Now()
	outputs, err := s.engine.Step(ctx, s.chunks)
	s.elapsed += time.Since(begin)
	if err != nil {
		return fmt.Errorf("window %d: %w", s.seats[0].window, err)
	}
	left := s.seats[:0]
	for i, out := range outputs {
		at := s.seats[i]
		n := len(s.chunks[i].Tokens)
		if err := s.scoreChunk(at, n, out); err != nil {
			return fmt.Errorf("window %d: %w", at.window, err)
		}
		at.position += n
		if at.position < len(s.windows[at.window])-1 {
			left = append(left, at)
			continue
		}
		at.sequence.Close()
		s.seats[i].sequence = nil
	}
	s.seats = left
	if s.feed.Progress != nil {
		s.feed.Progress(s.done)
	}
	return nil
}

func (s *steps) scoreChunk(at seat, n int, out engine.Output) error {
	if out.Err != nil {
		return out.Err
	}
	vocabulary := len(out.Logits) / n
	for p := range n {
		if err := s.score(place{at.window, at.position + p}, out.Logits[p*vocabulary:][:vocabulary]); err != nil {
			return err
		}
		s.done++
	}
	return nil
}

func (s *steps) close() {
	for _, at := range s.seats {
		if at.sequence != nil {
			at.sequence.Close()
		}
	}
}
