package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/evaluation"
	"github.com/moepool/moepool/internal/bytesize"
)

// evaluator carries out a plan: one model is in memory at a time.
type evaluator struct {
	flags      *evalFlags
	plan       *evalPlan
	file, text string
	show       bool

	windows    [][]int32
	prompts    [][]int32 // of greedy continuations; empty without
	cluster    *cluster  // that runs now
	cold       bool      // the next one begins with nothing in memory
	saved      map[string]savedProfiles
	references map[string]*evalReference
	rows       []evalRow
}

// evalReference is what arms are compared with.
type evalReference struct {
	format        string
	logits        *evaluation.Reference
	continuations [][]int32
}

// start runs a model instead of the one that runs now.
func (e *evaluator) start(ctx context.Context, f *localFlags) error {
	e.stop()
	c, err := startLocal(ctx, f, e.show, func(c *coordinator.Coordinator) error {
		if err := e.prepareFolders(c, f); err != nil {
			return err
		}
		return e.cut(c)
	})
	if err != nil {
		return err
	}
	e.cluster = c
	return nil
}

// stop ends the model that runs.
func (e *evaluator) stop() {
	e.cluster.stop()
	e.cluster = nil
}

// cut makes the windows, when a tokenizer is there for the first time.
func (e *evaluator) cut(c *coordinator.Coordinator) error {
	if e.windows != nil {
		return nil
	}
	ids := c.Tokenizer.Encode(e.text, false)
	if len(ids) < 2 {
		return fmt.Errorf("%s has %d tokens: there is nothing to predict", e.file, len(ids))
	}
	windows := evaluation.Windows(ids, e.flags.window)
	if e.flags.windows > 0 {
		windows = windows[:min(e.flags.windows, len(windows))]
	}
	e.windows = windows
	if e.plan.chunk == 0 && e.flags.greedy > 0 {
		for _, w := range windows {
			if len(w) >= e.flags.greedyPrompt {
				e.prompts = append(e.prompts, w[:e.flags.greedyPrompt])
			}
		}
	}
	return nil
}

// measure runs all arms of a format under a limit.
func (e *evaluator) measure(ctx context.Context, format, limit string) error {
	f := e.flags.local
	f.model.format, f.coordinator.expertBudget, f.residency.limit = format, offBudget, limit
	reference, err := e.reference(ctx, &f, format)
	if err != nil {
		return fmt.Errorf("the reference: %w", err)
	}
	for i := range e.plan.arms {
		arm := &e.plan.arms[i]
		start, err := e.begin(ctx, &f)
		if err != nil {
			return err
		}
		row := e.newRow(format, start, arm)
		if err := e.runArm(ctx, arm, reference, &row); err != nil {
			return fmt.Errorf("%s, budget %v: %w", format, arm.policy, err)
		}
		e.rows = append(e.rows, row)
	}
	e.stop()
	return nil
}

// reference gives the logits that a format's arms are compared with, computing them when they are asked for first; nil if the plan has none.
// Where the format is its own reference, its model runs afterwards.
func (e *evaluator) reference(ctx context.Context, own *localFlags, format string) (*evalReference, error) {
	if !e.plan.compare {
		return nil, nil
	}
	flags := e.plan.reference
	if flags == nil {
		flags = own
	}
	if r := e.references[flags.model.format]; r != nil {
		return r, nil
	}
	start, err := e.begin(ctx, flags)
	if err != nil {
		return nil, err
	}
	r := &evalReference{format: flags.model.format}
	if err := e.checkScratch(r.format); err != nil {
		return nil, err
	}
	arm := e.plan.off()
	arm.kind = armReference
	row := e.newRow(r.format, start, &arm)
	before := e.cluster.Engine.Totals()
	feed, finish := e.watched(&arm, r.format)
	logits, result, err := evaluation.Record(ctx, e.cluster.Engine, e.windows, e.vocabulary(), feed, e.flags.scratch)
	finish()
	if err != nil {
		return nil, err
	}
	r.logits = logits
	if e.references == nil {
		e.references = map[string]*evalReference{}
	}
	e.references[r.format] = r
	row.count(result, e.cluster.Engine.Totals().Since(&before))
	if len(e.prompts) > 0 {
		if r.continuations, err = feed.Continue(ctx, e.cluster.Engine, e.prompts, e.flags.greedy); err != nil {
			return nil, err
		}
	}
	e.rows = append(e.rows, row)
	if e.plan.reference != nil {
		e.stop()
	}
	return r, nil
}

func (e *evaluator) vocabulary() int { return e.cluster.Checkpoint.Config().Vocabulary }

// checkScratch says where the reference's logits go, and refuses if there is no room for them.
func (e *evaluator) checkScratch(format string) error {
	dir := e.flags.scratch
	if dir == "" {
		dir = os.TempDir()
	}
	need := evaluation.ReferenceBytes(e.windows, e.vocabulary())
	what := fmt.Sprintf("the reference's logits (%s, %d tokens × %d) take %s in %s", format, evaluation.Predicted(e.windows), e.vocabulary(), bytesize.Text(need), dir)
	if err := requireSpace(dir, need, what); err != nil {
		return err
	}
	if e.show {
		fmt.Fprintf(os.Stderr, "[%s, until the end]\n", what)
	}
	return nil
}

// requireSpace refuses if a folder's file system has less free space than is needed. Where that can't be asked, writing will show it.
func requireSpace(dir string, need int64, what string) error {
	space, err := arena.Check(dir)
	if err == nil && space.FreeBytes < need {
		return fmt.Errorf("%s, where %s are free: --windows takes fewer of the text's windows, --scratch-dir another folder", what, bytesize.Text(space.FreeBytes))
	}
	return nil
}

// watched is the arm's feed with a progress bar, which finish removes.
func (e *evaluator) watched(arm *evalArm, format string) (feed evaluation.Feed, finish func()) {
	feed = e.plan.feed(arm)
	bars := newBars(newLogger(true), e.show)
	total := int64(evaluation.Predicted(e.windows))
	name := strings.TrimSpace(format + " " + arm.policy.String())
	feed.Progress = func(done int) { bars.count(name, int64(done), total) }
	return feed, bars.finish
}

// runArm measures one arm on the model that runs.
func (e *evaluator) runArm(ctx context.Context, arm *evalArm, reference *evalReference, row *evalRow) (err error) {
	feed, finish := e.watched(arm, row.Format)
	defer finish()
	before := e.cluster.Engine.Totals()
	var result evaluation.Result
	if reference == nil {
		result, err = evaluation.Measure(ctx, e.cluster.Engine, e.windows, feed)
	} else {
		result, err = reference.logits.Compare(ctx, e.cluster.Engine, feed)
	}
	if err != nil {
		return err
	}
	row.count(result, e.cluster.Engine.Totals().Since(&before))
	if reference == nil {
		return nil
	}
	row.diverge(reference.format, result.Divergence)
	if len(e.prompts) == 0 {
		return nil
	}
	agreed, err := feed.Agreement(ctx, e.cluster.Engine, e.prompts, reference.continuations)
	if err != nil {
		return err
	}
	row.agree(agreed, e.flags.greedy)
	return nil
}
