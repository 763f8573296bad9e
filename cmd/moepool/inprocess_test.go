//go:build linux

package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker"
)

// setup is one way to run a model in this process: the product's coordinator and workers over its own NATS, without the
// process boundary, so that many can be tried.
type setup struct {
	model   string
	format  kernels.Format
	dense   kernels.Format // default: as --dense-format's
	kv      attention.Format
	parts   int
	workers int
	threads int
	kernels string
	arena   string // folder, or "" for anonymous memory
	budget  budget.Policy
	chosen  coordinator.ResidencyOverride
	lane    string // "" is transport.LaneNATS
	server  *transport.Server
}

func (s setup) String() string {
	arena := "anonymous"
	if s.arena != "" {
		arena = "arena"
	}
	return fmt.Sprintf("%v/parts=%d/workers=%d/threads=%d/%s/%s/lane=%s", s.format, s.parts, s.workers, s.threads, s.kernels, arena, s.lane)
}

var clusters atomic.Int64

// newServer starts a NATS server for the test's setups.
func newServer(t testing.TB) *transport.Server {
	t.Helper()
	server, err := transport.StartServer(transport.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// open starts workers and coordinator; both end with the test.
func (s setup) open(t testing.TB) *coordinator.Coordinator {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	name := fmt.Sprintf("test-%d", clusters.Add(1))
	set, err := kernels.Select(s.kernels)
	if err != nil {
		t.Fatal(err)
	}
	if s.kv == "" {
		s.kv = attention.BF16
		if s.format == kernels.F32 {
			s.kv = attention.F32
		}
	}
	if s.dense == 0 {
		s.dense = s.format
		if s.format.FourBits() {
			s.dense = kernels.Q8
		}
	}
	lives, stop := context.WithCancel(context.Background())
	ended := make(chan error, s.workers)
	t.Cleanup(func() {
		stop()
		for range s.workers {
			if err := <-ended; err != nil {
				t.Errorf("%v: worker: %v", s, err)
			}
		}
	})
	for i := range s.workers {
		go func() {
			ended <- worker.Run(lives, worker.Options{
				ID: fmt.Sprintf("w%d", i), Cluster: name, ModelDir: s.model, Format: s.format, Parts: s.parts, Node: -1,
				Kernels: set, Threads: s.threads, ArenaDir: s.arena, Version: "test",
				Lane:    s.lane == transport.LaneLocal,
				Connect: transport.ConnectOptions{Server: s.server, Name: "worker"},
			})
		}()
	}
	c, err := coordinator.Open(lives, coordinator.Options{ // its beats end with this context
		ModelDir: s.model, Version: "test", ExpertFormat: s.format, DenseFormat: s.dense, KVFormat: s.kv, Parts: s.parts,
		Budget: s.budget, Residency: s.chosen, Kernels: set, Threads: s.threads, Cluster: name, Workers: s.workers,
		Lane:    s.lane == transport.LaneLocal,
		Connect: transport.ConnectOptions{Server: s.server, Name: "coordinator"},
		Log:     func(format string, args ...any) { t.Logf(format, args...) },
	})
	if err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	t.Cleanup(c.Close)
	if err := c.Start(ctx); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	for _, b := range c.Members().Workers() {
		if lane := c.Members().Lane(b.Worker); s.lane != "" && lane != s.lane {
			t.Fatalf("%v: worker %s is reached over %s", s, b.Worker, lane)
		}
	}
	return c
}
