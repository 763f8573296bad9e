package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/moepool/moepool/cmd/moepool/internal/chart"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/kernels"
)

// evalPlan is what `eval` measures: all arms of all formats and limits.
type evalPlan struct {
	formats []string
	limits  []string // as --resident-limit takes them
	arms    []evalArm

	chunk int // positions of a step, in the prefill phase; 0 is the decode phase
	rows  int // windows at once, in the decode phase

	reference *localFlags // of the reference's model; nil: each format's own unbudgeted run, or none
	compare   bool        // there is a reference
}

// The kinds of rows.
const (
	armReference = "reference" // the run that the others of its format are compared with
	armNull      = "null"      // the reference's configuration once more
	armBudget    = "budget"    // whatever was asked for
)

// evalArm is one way to run a format under a limit.
type evalArm struct {
	kind   string
	policy budget.Policy
}

// plan checks the flags.
func (f *evalFlags) plan(flags *pflag.FlagSet) (*evalPlan, error) {
	if f.window < 2 {
		return nil, usageError{fmt.Errorf("--window is %d, it must be at least 2", f.window)}
	}
	for flag, value := range map[string]int{"--windows": f.windows, "--greedy": f.greedy, "--warmup": f.warmup} {
		if value < 0 {
			return nil, usageError{fmt.Errorf("%s is %d, it must be at least 0", flag, value)}
		}
	}
	for flag, value := range map[string]int{"--rows": f.rows, "--greedy-prompt": f.greedyPrompt} {
		if value < 1 {
			return nil, usageError{fmt.Errorf("%s is %d, it must be at least 1", flag, value)}
		}
	}
	if err := checkPlots(f.plots); err != nil {
		return nil, err
	}
	p := &evalPlan{}
	var err error
	if p.limits, err = parseList("--"+residentLimitFlag, f.local.residency.limit, ",", func(s string) error {
		one := f.local.residency
		one.limit = s
		return one.check()
	}); err != nil {
		return nil, err
	}
	if p.formats, err = parseList("--format", f.local.model.format, ",", func(s string) error {
		_, err := kernels.ParseFormat(s)
		return err
	}); err != nil {
		return nil, err
	}
	if p.arms, err = f.budgetArms(); err != nil {
		return nil, err
	}
	if err := f.phase(p, flags); err != nil {
		return nil, err
	}
	if p.reference, err = f.referenceFlags(); err != nil {
		return nil, err
	}
	if p.reference != nil {
		p.reference.residency.limit = p.limits[0]
	}
	p.compare = p.reference != nil || p.chunk == 0 || slices.ContainsFunc(p.arms, func(a evalArm) bool { return !a.policy.Off() })
	if p.chunk == 0 && p.reference == nil {
		p.addNullArm()
	}
	return p, nil
}

// offBudget is a policy that is off, as text.
var offBudget = budget.Policy{}.String()

// parseList cuts a flag's value and checks each item; the same one twice is refused.
func parseList(flag, value, separator string, check func(string) error) ([]string, error) {
	var items []string
	for item := range strings.SplitSeq(value, separator) {
		item = strings.TrimSpace(item)
		if item == "" {
			return nil, usageError{fmt.Errorf("%s is %q: item %d of the list is empty (items are separated by %q)", flag, value, len(items)+1, separator)}
		}
		if err := check(item); err != nil {
			if _, named := errors.AsType[usageError](err); named { // it says which flag
				return nil, err
			}
			return nil, usageError{fmt.Errorf("%s: %w", flag, err)}
		}
		if slices.Contains(items, item) {
			return nil, usageError{fmt.Errorf("%s is %q: %q is there twice", flag, value, item)}
		}
		items = append(items, item)
	}
	return items, nil
}

// budgetArms are the policies of --expert-budget.
func (f *evalFlags) budgetArms() ([]evalArm, error) {
	var arms []evalArm
	one := f.local.coordinator
	_, err := parseList("--expert-budget", f.local.coordinator.expertBudget, ";", func(s string) error {
		one.expertBudget = s
		policy, err := one.policy()
		if err != nil {
			return errors.Unwrap(errors.Unwrap(err)) // parseList names the flag
		}
		for _, a := range arms {
			if a.policy == policy {
				return fmt.Errorf("%q is %v, which is there twice", s, policy)
			}
		}
		arms = append(arms, evalArm{armBudget, policy})
		return nil
	})
	return arms, err
}

// off is an arm with the switches of the others that drops nothing.
func (p *evalPlan) off() evalArm {
	policy := p.arms[0].policy
	return evalArm{armNull, budget.Policy{Prefill: policy.Prefill, Rescue: policy.Rescue}}
}

// addNullArm puts the null arm first, in place of "off" in the list.
func (p *evalPlan) addNullArm() {
	all := []evalArm{p.off()}
	for _, a := range p.arms {
		if !a.policy.Off() {
			all = append(all, a)
		}
	}
	p.arms = all
}

// phase decides how windows are computed.
func (f *evalFlags) phase(p *evalPlan, flags *pflag.FlagSet) error {
	chunked := anyGiven(flags, "prefill-chunk")
	if chunked && anyGiven(flags, "rows") {
		return usageError{errors.New("--prefill-chunk computes the text as prompts, --rows token by token: they don't go together")}
	}
	budgets := slices.ContainsFunc(p.arms, func(a evalArm) bool { return !a.policy.Off() })
	if !chunked && (budgets || anyGiven(flags, "rows", residentLimitFlag)) {
		p.rows = f.rows
		return nil
	}
	p.chunk = f.local.coordinator.prefillChunk
	if p.chunk < 0 {
		return usageError{fmt.Errorf("--prefill-chunk is %d, it must be at least 1 (0: the window)", p.chunk)}
	}
	if p.chunk == 0 {
		p.chunk = f.window
	}
	return nil
}

// referenceFlags are the flags of the reference's model, nil without one: the same as the model's but for formats and budget.
func (f *evalFlags) referenceFlags() (*localFlags, error) {
	if f.reference == "" {
		if f.referenceDense != "" {
			return nil, usageError{errors.New("--reference-dense-format needs --reference-format")}
		}
		return nil, nil
	}
	if _, err := kernels.ParseFormat(f.reference); err != nil {
		return nil, usageError{fmt.Errorf("--reference-format: %w", err)}
	}
	if f.referenceDense != "" {
		if _, err := kernels.ParseFormat(f.referenceDense); err != nil {
			return nil, usageError{fmt.Errorf("--reference-dense-format: %w", err)}
		}
	}
	r := f.local
	r.model.format, r.coordinator.denseFormat, r.coordinator.kvFormat = f.reference, f.referenceDense, ""
	r.coordinator.expertBudget = offBudget
	return &r, nil
}

func checkPlots(paths []string) error {
	for _, path := range paths {
		if format := plotFormat(path); !slices.Contains(chart.Formats, format) {
			return usageError{fmt.Errorf("--plot %s: the name must end in .%s", path, strings.Join(chart.Formats, " or ."))}
		}
	}
	return nil
}

func plotFormat(path string) string {
	return strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
}
