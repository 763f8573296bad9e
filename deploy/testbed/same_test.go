package testbed

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Three hosts beside the coordinator's, undisturbed and at each delay.
func TestSameTokens(t *testing.T) {
	b := start(t, []string{"h2", "h3", "h4"})
	for _, delay := range delays {
		b.slow(t, delay)
		a := b.generate(t)
		t.Logf("delay %v: %d tokens in %v", delay, len(a.Tokens), a.Took)
	}
	// The metrics that the guide tells to watch exist.
	guide, err := os.ReadFile(filepath.Join(filepath.Dir(b.Network.Script), "..", "..", "docs", "multi-host.md"))
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := Scrape(b.metricsAddress("h1"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`(moepool_[a-z_]+)").FindAllSubmatch(guide, -1)
	if len(names) < 10 {
		t.Errorf("the guide names %d metrics", len(names))
	}
	for _, name := range names {
		if metrics[string(name[1])] == nil {
			t.Errorf("docs/multi-host.md names the metric %s, which the coordinator doesn't have", name[1])
		}
	}
}
