// Package doctor looks at this host and at a model, and says what works, what would be slow, what would fail, and what to change.
// Facts are gathered first (facts.go, fit.go); the judgement of them is pure (judge_*.go).
package doctor

import (
	"context"
	"fmt"

	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/kernels"
)

// Options say what is looked at.
type Options struct {
	// ModelDir is a checkpoint's folder; "" looks at the host only.
	ModelDir string

	// Format is the experts' format, DenseFormat that of the other weights, KVFormat that of keys and values. "" as KVFormat is what
	// the engine takes.
	Format, DenseFormat kernels.Format
	KVFormat            attention.Format

	// Parts of an expert; 0 is 1.
	Parts int

	// Context is the most positions of a sequence; 0 is what the engine takes.
	Context int

	// ArenaDir is the folder of arenas; "" or "none" is anonymous memory.
	ArenaDir string

	// Workers on this host, dealt to the nodes in turn; 0 is one per node.
	Workers int

	// Kernels is the implementation that would be used; nil is the best one.
	Kernels *kernels.Set

	// SpeedBytes is the size of the temporary file that the arena folder's disk is measured with; 0 is 64 MiB, negative
	// measures nothing.
	SpeedBytes int64
}

const defaultSpeedBytes = 64 << 20

// Report is what was found.
type Report struct {
	Host     Facts     `json:"host"`
	Model    *Fit      `json:"model,omitempty"`
	Findings []Finding `json:"findings"`
}

// Level says how bad a finding is.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn" // works, but slower or with less than it could
	Fail Level = "fail" // would not work
)

// Finding is one line of the report.
type Finding struct {
	Section string `json:"section"` // "host", "arena" or "model"
	Level   Level  `json:"level"`
	Subject string `json:"subject"`
	Text    string `json:"text"`          // what is there, or what is wrong
	Fix     string `json:"fix,omitempty"` // what to change: a command, a flag
}

// Failed says whether something would fail.
func (r *Report) Failed() bool { return r.count(Fail) > 0 }

func (r *Report) count(l Level) (n int) {
	for _, f := range r.Findings {
		if f.Level == l {
			n++
		}
	}
	return n
}

// Check looks at everything. What is wrong with the host or the model is a finding; an error is only of the context or of
// options that make no sense.
func Check(ctx context.Context, o Options) (*Report, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	facts, err := gather(ctx, &o)
	if err != nil {
		return nil, err
	}
	r := &Report{Host: *facts}
	r.Findings = append(judgeHost(facts), judgeArena(facts)...)
	if o.ModelDir == "" {
		return r, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fit, problem := measure(&o, facts)
	if problem != nil {
		r.Findings = append(r.Findings, *problem)
		return r, nil
	}
	r.Model = fit
	r.Findings = append(r.Findings, judgeModel(facts, fit)...)
	return r, nil
}

func (o *Options) complete() error {
	if o.ArenaDir == "none" {
		o.ArenaDir = ""
	}
	if o.SpeedBytes == 0 {
		o.SpeedBytes = defaultSpeedBytes
	}
	if o.Workers < 0 {
		return fmt.Errorf("doctor: --workers is %d, it must be at least 1", o.Workers)
	}
	if o.Parts == 0 {
		o.Parts = 1
	}
	if o.ModelDir != "" && (o.Format == 0 || o.DenseFormat == 0) {
		return fmt.Errorf("doctor: no weight formats given for the model %s", o.ModelDir)
	}
	if o.KVFormat == "" {
		o.KVFormat = attention.BF16
		if o.Format == kernels.F32 {
			o.KVFormat = attention.F32
		}
	}
	if _, err := attention.ParseFormat(string(o.KVFormat)); err != nil {
		return fmt.Errorf("doctor: --kv-format: %w", err)
	}
	if o.Kernels == nil {
		set, err := kernels.Select("")
		if err != nil {
			return fmt.Errorf("doctor: %w", err)
		}
		o.Kernels = set
	}
	return nil
}
