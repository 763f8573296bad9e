package membership

import "github.com/moepool/moepool/transport"

// coverage is which expert parts of the active plan no usable worker owns.
type coverage struct {
	parts   int             // how many
	missing map[string]bool // workers that own one of them
}

// coverage is that of the active plan; nothing is missing without one.
func (t *table) coverage() *coverage {
	if t.covered != nil {
		return t.covered
	}
	c := &coverage{missing: map[string]bool{}}
	t.covered = c
	if t.active == nil {
		return c
	}
	for _, layer := range t.active.Owners {
		for _, owners := range layer {
			if t.anyUsable(owners) {
				continue
			}
			c.parts++
			for _, worker := range owners {
				c.missing[worker] = true
			}
		}
	}
	return c
}

func (t *table) anyUsable(owners []string) bool {
	for _, worker := range owners {
		if m := t.members[worker]; m != nil && m.usable {
			return true
		}
	}
	return false
}

// leastComputeTime is how long a worker must have computed before its bandwidth counts.
const leastComputeTime = int64(2e9) // ns

// bandwidth is how many packed bytes a worker computes in a second, 0 if that is not known yet.
func bandwidth(b *transport.Beat) float64 {
	if b.ComputeTime < leastComputeTime {
		return 0
	}
	return float64(b.ComputedBytes) / (float64(b.ComputeTime) * 1e-9)
}
