//go:build linux

package main

import (
	"encoding/json"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator/membership"
	"github.com/moepool/moepool/coordinator/serve"
)

var coordinatorRestarts = flag.Int("coordinator-restarts", 2, "TestCoordinatorRestarts: how often")

// TestCoordinatorRestarts: coordinators end and start again, without a group that remembers anything; the workers stay what they are, and read or
// pack no weight again.
func TestCoordinatorRestarts(t *testing.T) {
	t.Parallel()
	c := newExternalCluster(t, 0)
	arena := t.TempDir()
	for _, id := range []string{"w0", "w1", "w2"} {
		startProcess(t, c.args("worker", "--id", id, "--node", "0", "--arena-dir", arena)...)
	}
	look := func() (workers []membership.WorkerStatus) {
		p := startProcess(t, c.args("status", "--json")...)
		if code := p.await(t, waitLimit); code != 0 {
			t.Fatal(p.stderr.String())
		}
		var s serve.Status
		if err := json.Unmarshal([]byte(p.stdout.String()), &s); err != nil {
			t.Fatal(err)
		}
		return s.Members.Workers
	}
	leader := c.coordinator("--workers", "3")
	want := c.run("--json", "--max-tokens", "24", demoPrompt).json(t).Tokens
	first := look()
	for i := range *coordinatorRestarts {
		leader.Process.Kill()
		<-leader.ended
		begin := time.Now()
		leader = c.coordinator("--workers", "3")
		t.Logf("restart %d: serves after %v", i+1, time.Since(begin).Round(time.Millisecond))
		if got := c.run("--json", "--max-tokens", "24", demoPrompt).json(t).Tokens; !slices.Equal(got, want) {
			t.Fatalf("restart %d: tokens %v, before %v", i+1, got, want)
		}
		for at, w := range look() {
			if old := first[at]; w.ID != old.ID || w.PID != old.PID || w.Bytes != old.Bytes || w.Arena.PackedBytes != old.Arena.PackedBytes || w.Arena.PackedBytes == 0 {
				t.Fatalf("restart %d: worker %s is process %d, owns %d bytes and has packed %d; at first %s, %d, %d, %d", i+1,
					w.ID, w.PID, w.Bytes, w.Arena.PackedBytes, old.ID, old.PID, old.Bytes, old.Arena.PackedBytes)
			}
		}
	}
}
