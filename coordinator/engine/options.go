package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
)

// DefaultContext is the most positions of a sequence where neither options nor model ask for fewer.
const DefaultContext = 8192

// Options configure an engine.
type Options struct {
	// Kernels is the implementation to compute with; nil is the best for this CPU.
	Kernels *kernels.Set
	// Team is the coordinator's threads; it belongs to the caller.
	Team *team.Team
	// ExpertFormat is the format of the routed experts: activations are prepared for it, and unread bytes are counted in it.
	ExpertFormat kernels.Format
	// DenseFormat is the format of attention, shared and dense feed-forward networks and the LM head.
	DenseFormat kernels.Format
	// KVFormat is how keys and values are kept; "" is f32 with experts in f32, else bf16.
	KVFormat attention.Format
	// Context is the most positions of a sequence; 0 is the smaller of the model's and DefaultContext.
	Context int
	// Parts is the number of parts that the experts were packed with, to count unread bytes; 0 is 1.
	Parts int
	// Budget is the expert budget; its zero value is off.
	Budget budget.Policy
	// Experts computes routed experts.
	Experts Experts
	// Prefetch says when the next layer's experts are predicted, so that workers can read them early; its zero value is PrefetchAuto.
	Prefetch Prefetch
	// Progress is told the bytes of dense weights packed so far; it may be nil.
	Progress func(done, total int64)
	// Observer is told what the router chose in a layer, before the budget: a choice for each row of the batch, in the order of
	// chunks and positions; rows of failed sequences are left out or empty, and in the last layer those whose logits are not wanted are left
	// out. It must not keep or change the choices. It may be nil.
	Observer func(layer int, choices []router.Choice)
}

// complete fills in defaults and says what is missing or can't be.
func (o *Options) complete(c *checkpoint.Config) error {
	if o.Team == nil {
		return errors.New("engine: Options.Team is missing")
	}
	if o.Kernels == nil {
		set, err := kernels.Select("")
		if err != nil {
			return err
		}
		o.Kernels = set
	}
	hasExperts := slices.ContainsFunc(c.Layers, func(l checkpoint.LayerConfig) bool { return l.MoE })
	if hasExperts && o.Experts == nil {
		return errors.New("engine: the model has routed experts, and Options.Experts is missing")
	}
	if o.DenseFormat == 0 || hasExperts && o.ExpertFormat == 0 {
		return errors.New("engine: Options.DenseFormat or Options.ExpertFormat is missing")
	}
	if int(o.Prefetch) >= len(prefetchNames) {
		return errPrefetch
	}
	if o.KVFormat == "" {
		o.KVFormat = attention.BF16
		if o.ExpertFormat == kernels.F32 {
			o.KVFormat = attention.F32
		}
	}
	if o.Context == 0 {
		o.Context = min(c.MaxPositions, DefaultContext)
	}
	if o.Context < 1 || o.Context > c.MaxPositions {
		return fmt.Errorf("a context of %d positions: the model has from 1 to %d", o.Context, c.MaxPositions)
	}
	o.Parts = max(o.Parts, 1)
	if most := kernels.MaxParts(o.ExpertFormat, c.ExpertIntermediate); hasExperts && o.Parts > most {
		return fmt.Errorf("%d parts: experts of width %d have at most %d", o.Parts, c.ExpertIntermediate, most)
	}
	return nil
}
