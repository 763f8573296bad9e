//go:build linux

package main

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkTakeover kills the leader of three coordinators and tells how long it takes until another one answers requests (the figures of
// docs/coordinators.md). Run it with -benchtime 20x.
func BenchmarkTakeover(b *testing.B) {
	g := newCoordinators(b)
	g.heartbeat = 0
	g.start("a", "b", "c")
	g.worker("w0")
	leader, term := g.leader(0)
	g.ask()
	var times []time.Duration
	for b.Loop() {
		killed := leader
		g.processes[killed].Process.Kill()
		begin := time.Now()
		<-g.processes[killed].ended
		leader, term = g.leader(term)
		times = append(times, time.Since(begin))
		g.ask()
		g.start(killed)
		g.processes[killed].awaitOutput(b, &g.processes[killed].stderr, "stands by")
		time.Sleep(time.Second) // it has caught up
	}
	slices.Sort(times)
	b.ReportMetric(times[len(times)/2].Seconds(), "p50-s")
	b.ReportMetric(times[len(times)-1].Seconds(), "max-s")
}
