package kernels

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Known lists the names of all implementations in this build, best first, whatever this CPU can run.
func Known() []string {
	var names []string
	for _, s := range implementations {
		names = append(names, s.name)
	}
	return names
}

// Available lists the implementations that this CPU runs and the operating system permits, best first; the last is "generic".
func Available() []string {
	var names []string
	for _, s := range implementations {
		if s.problem() == nil {
			names = append(names, s.name)
		}
	}
	return names
}

// Select gives an implementation: the best for "" or "auto", else the named one. The error of a name that is unknown or
// can't run here says which are valid and why: which CPU feature is missing, or what the operating system answered.
func Select(name string) (*Set, error) {
	for _, s := range implementations {
		switch {
		case s.name == name:
			if err := s.problem(); err != nil {
				return nil, fmt.Errorf("kernels %q %w; valid here: auto, %s", name, err, strings.Join(Available(), ", "))
			}
			return s, nil
		case (name == "" || name == "auto") && s.problem() == nil:
			return s, nil
		}
	}
	return nil, fmt.Errorf("unknown kernels %q; valid here: auto, %s", name, strings.Join(Available(), ", "))
}

// best is the best implementation that this CPU runs.
var best = sync.OnceValue(func() *Set {
	i := slices.IndexFunc(implementations, func(s *Set) bool { return s.problem() == nil })
	return implementations[i] // there is always generic
})

// AMXRefused says why the kernel doesn't let this process use the AMX that its CPU has (or that AMXTRAP=1 promises): kernels "amx"
// then count as missing, and the next best are chosen. It is nil where AMX may be used, and where there is none.
func AMXRefused() error {
	for _, s := range implementations {
		if s.permit != nil && len(s.missing()) == 0 {
			return s.permit()
		}
	}
	return nil
}

// problem says why the implementation can't run here; nil if it can.
func (s *Set) problem() error {
	if missing := s.missing(); len(missing) > 0 {
		return fmt.Errorf("need CPU features that are missing here: %s", strings.Join(missing, ", "))
	}
	if s.permit != nil {
		if err := s.permit(); err != nil {
			return fmt.Errorf("can't be used: %w", err)
		}
	}
	return nil
}

// missing lists the CPU features that the implementation needs and this CPU lacks. All are asked for one by one: a feature
// may be switched off (GODEBUG=cpu.avx2=off) while one that builds on it is still reported.
func (s *Set) missing() []string {
	present := map[string]bool{}
	for _, f := range Features() {
		present[f.Name] = f.Present
	}
	var missing []string
	for _, name := range s.requires {
		if !present[name] {
			missing = append(missing, name)
		}
	}
	return missing
}
