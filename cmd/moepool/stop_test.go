//go:build linux

package main

import (
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/generation"
)

// limitedCluster is a model on this host with room for some of its experts. The test can't be parallel, since the workers need an environment
// variable.
func limitedCluster(t *testing.T, arena string) *cluster {
	t.Helper()
	t.Setenv(asCommand, "1")
	var f localFlags
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.register(flags)
	for name, value := range map[string]string{"model": longModel(t), "arena-dir": arena, "resident-limit": "300KiB"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	c, err := startLocal(t.Context(), &f, false, func(*coordinator.Coordinator) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// freeze stops the workers for longer than stopTimeout and than a beat's interval.
func (c *cluster) freeze(t *testing.T, until *sync.WaitGroup) {
	t.Helper()
	for _, pid := range c.workers.PIDs() {
		p, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		until.Go(func() {
			time.Sleep(stopTimeout + time.Second)
			_ = p.Signal(syscall.SIGCONT) // a test that fails has killed it
			_ = p.Release()
		})
	}
}

// generate runs an answer; last is called before its end.
func (c *cluster) generate(t *testing.T, last func()) {
	t.Helper()
	tokens := 0
	q := coordinator.Request{Prompt: coordinator.Prompt{Raw: demoPrompt}, MaxTokens: 24, IgnoreEOS: true}
	if _, err := c.Generate(t.Context(), q, nil, func(generation.Piece) error {
		if tokens++; tokens == q.MaxTokens {
			last()
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A worker that takes long to say what it has computed is waited for: the counters of a report are complete.
func TestSlowCountersAreWaitedFor(t *testing.T) {
	c := limitedCluster(t, t.TempDir())
	defer c.stop()
	var frozen sync.WaitGroup
	defer frozen.Wait()
	c.generate(t, func() { c.freeze(t, &frozen) })
	c.awaitResidency(t.Context())
	totals := c.Engine.Totals()
	var counted uint64
	for _, b := range c.Members().Workers() {
		counted += b.Residency.Hits + b.Residency.Misses
	}
	if totals.Misses == 0 || counted != uint64(totals.Hits+totals.Misses) {
		t.Errorf("the workers told of %d expert parts that were needed, %d hits and %d misses were seen", counted, totals.Hits, totals.Misses)
	}
}

// A worker that takes long to end is not killed while it keeps what was needed most.
func TestSlowEndIsWaitedFor(t *testing.T) {
	arena := t.TempDir()
	c := limitedCluster(t, arena)
	var frozen sync.WaitGroup
	defer frozen.Wait()
	c.generate(t, func() {})
	waitFor(t, waitLimit, func() (bool, string) { return c.whole(), "a beat of the worker" })
	c.freeze(t, &frozen)
	c.stop()
	if paths := profiles(t, arena); len(paths) != 1 || hottest(t, paths[0]) == 0 {
		t.Errorf("profiles %q", paths)
	}
}
