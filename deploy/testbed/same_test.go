package testbed

import "testing"

// Three hosts beside the coordinator's, undisturbed and at each delay.
func TestSameTokens(t *testing.T) {
	b := start(t, []string{"h2", "h3", "h4"})
	for _, delay := range delays {
		b.slow(t, delay)
		a := b.generate(t)
		t.Logf("delay %v: %d tokens in %v", delay, len(a.Tokens), a.Took)
	}
}
