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

// Available lists the implementations that this CPU runs, best first; the last is "generic".
func Available() []string {
	var names []string
	for _, s := range implementations {
		if len(s.missing()) == 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// Select gives an implementation: the best for "" or "auto", else the named one. The error of a name that is unknown or
// that this CPU lacks says which are valid and which CPU feature is missing.
func Select(name string) (*Set, error) {
	for _, s := range implementations {
		missing := s.missing()
		switch {
		case s.name == name && len(missing) > 0:
			return nil, fmt.Errorf("kernels %q need CPU features that are missing here: %s; valid here: auto, %s",
				name, strings.Join(missing, ", "), strings.Join(Available(), ", "))
		case s.name == name, (name == "" || name == "auto") && len(missing) == 0:
			return s, nil
		}
	}
	return nil, fmt.Errorf("unknown kernels %q; valid here: auto, %s", name, strings.Join(Available(), ", "))
}

// best is the best implementation that this CPU runs.
var best = sync.OnceValue(func() *Set {
	i := slices.IndexFunc(implementations, func(s *Set) bool { return len(s.missing()) == 0 })
	return implementations[i] // there is always generic
})

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
