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

// BenchmarkStep is one step of a model of two layers with attention of Qwen3-30B-A3B's shape, in q8.
func BenchmarkStep(b *testing.B) {
	spec, err := synth.Like("qwen3-30b-a3b")
	if err != nil {
		b.Fatal(err)
	}
	spec.Layers, spec.Vocabulary, spec.Experts, spec.ExpertIntermediate = 2, 16384, 128, 64
	dir := b.TempDir() + "/model"
	if err := synth.Write(dir, spec, nil); err != nil {
		b.Fatal(err)
	}
	e, err := engine.New(openCheckpoint(b, dir), engine.Options{
		Team: newTeam(b, 2), ExpertFormat: kernels.Q8, DenseFormat: kernels.Q8, Experts: noExperts{},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	for _, rows := range []int{1, 8, 256} {
		for _, length := range []int{0, 1000} {
			b.Run(fmt.Sprintf("rows=%d/length=%d", rows, length), func(b *testing.B) {
				s, err := e.NewSequence()
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				chunk := []engine.Chunk{{Sequence: s, Tokens: randomTokens(max(length, 1), spec.Vocabulary, 1), Logits: engine.NoLogits}}
				if length > 0 {
					if _, err := e.Step(b.Context(), chunk); err != nil {
						b.Fatal(err)
					}
				}
				chunk[0] = engine.Chunk{Sequence: s, Tokens: randomTokens(rows, spec.Vocabulary, 2)}
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
