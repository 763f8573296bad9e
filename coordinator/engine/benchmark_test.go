package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/kernels"
)

// noExperts leaves the routed part out: what is measured is the coordinator's own work.
type noExperts struct{}

func (noExperts) Compute(context.Context, *engine.ExpertCall) (engine.ExpertStats, error) {
	return engine.ExpertStats{}, nil
}
func (noExperts) Snapshot() engine.Residency { return residency(nil) }

// benchmarkEngine has a model of two layers with attention of Qwen3-30B-A3B's shape, in q8.
func benchmarkEngine(b *testing.B, prefetch engine.Prefetch) (e *engine.Engine, vocabulary int) {
	b.Helper()
	spec, err := synth.Like("qwen3-30b-a3b")
	if err != nil {
		b.Fatal(err)
	}
	spec.Layers, spec.Vocabulary, spec.Experts, spec.ExpertIntermediate = 2, 16384, 128, 64
	dir := b.TempDir() + "/model"
	if err := synth.Write(dir, spec, nil); err != nil {
		b.Fatal(err)
	}
	e, err = engine.New(openCheckpoint(b, dir), engine.Options{
		Team: newTeam(b, 2), ExpertFormat: kernels.Q8, DenseFormat: kernels.Q8, Experts: noExperts{}, Prefetch: prefetch,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	return e, spec.Vocabulary
}

// BenchmarkPrediction is a step in which the second layer's experts are predicted, and one in which they aren't.
func BenchmarkPrediction(b *testing.B) {
	for _, prefetch := range []engine.Prefetch{engine.PrefetchOff, engine.PrefetchOn} {
		e, vocabulary := benchmarkEngine(b, prefetch)
		for _, rows := range []int{1, 8} {
			b.Run(fmt.Sprintf("prefetch=%s/rows=%d", prefetch, rows), func(b *testing.B) {
				s, err := e.NewSequence()
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				chunk := []engine.Chunk{{Sequence: s, Tokens: randomTokens(rows, vocabulary, 2)}}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := e.Step(b.Context(), chunk); err != nil {
						b.Fatal(err)
					}
					if err := s.Truncate(0); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkStep is one step of that model.
func BenchmarkStep(b *testing.B) {
	e, vocabulary := benchmarkEngine(b, engine.PrefetchAuto)
	for _, rows := range []int{1, 8, 256} {
		for _, length := range []int{0, 1000} {
			b.Run(fmt.Sprintf("rows=%d/length=%d", rows, length), func(b *testing.B) {
				s, err := e.NewSequence()
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				chunk := []engine.Chunk{{Sequence: s, Tokens: randomTokens(max(length, 1), vocabulary, 1), Logits: engine.NoLogits}}
				if length > 0 {
					if _, err := e.Step(b.Context(), chunk); err != nil {
						b.Fatal(err)
					}
				}
				chunk[0] = engine.Chunk{Sequence: s, Tokens: randomTokens(rows, vocabulary, 2)}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := e.Step(b.Context(), chunk); err != nil {
						b.Fatal(err)
					}
					if err := s.Truncate(length); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
