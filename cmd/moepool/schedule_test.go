//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/generation"
	"github.com/moepool/moepool/demo"
	"github.com/moepool/moepool/internal/reservedport"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

var (
	scheduleCount = flag.Int("schedules", scheduleGroups, "TestFaultSchedules: how many random schedules")
	scheduleSeed  = flag.Uint64("schedule-seed", 1, "TestFaultSchedules: seed of the first; the others have the next ones. One failed schedule again: its seed and -schedules 1")
)

const (
	scheduleWorkers = 3
	scheduleTokens  = 64
	// scheduleGroups are tried at the same time: most of a schedule is waiting.
	scheduleGroups = 4
)

// faultKind is what happens at a token.
type faultKind int

const (
	killWorker  faultKind = iota // SIGKILL, and another process with its id
	pauseWorker                  // SIGSTOP for a while
	cutWorker                    // its host's network is gone for a while
	drainWorker                  // SIGTERM, and another process with its id once it has ended
	rebalance                    // another placement with the same workers
	restartNATS                  // the server ends, another one comes
	faultKinds
)

func (k faultKind) String() string {
	return [...]string{"kill", "pause", "cut", "drain", "rebalance", "restart NATS"}[k]
}

type fault struct {
	kind   faultKind
	token  int // when this many have come
	worker int
	lasts  time.Duration // until the worker is started, goes on or is reached again
}

func (f fault) String() string {
	return fmt.Sprintf("%v of worker %d at token %d for %v", f.kind, f.worker, f.token, f.lasts)
}

// schedule is one run's faults, drawn from its seed alone.
type schedule struct {
	seed   uint64
	faults []fault
}

func newSchedule(seed uint64) schedule {
	random := rand.New(rand.NewPCG(seed, 0))
	s := schedule{seed: seed}
	for range 1 + random.IntN(4) {
		s.faults = append(s.faults, fault{
			kind: faultKind(random.IntN(int(faultKinds))), token: 1 + random.IntN(scheduleTokens-2), worker: random.IntN(scheduleWorkers),
			lasts: time.Duration(random.IntN(1500)) * time.Millisecond,
		})
	}
	return s
}

// scheduleCluster is what faults happen to: NATS, worker processes behind links of their own, and the coordinator.
type scheduleCluster struct {
	t       *testing.T
	name    string
	model   string
	arena   string
	address string // of NATS
	token   string // file
	c       *coordinator.Coordinator

	mu      sync.Mutex // holds what faults change
	server  *transport.Server
	links   [scheduleWorkers]*link
	workers [scheduleWorkers]*process
	repairs sync.WaitGroup
}

func newScheduleCluster(t *testing.T, name string, replicas int) *scheduleCluster {
	t.Helper()
	model, err := demo.Dir(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &scheduleCluster{t: t, name: name, model: model, arena: t.TempDir(), address: reservedport.Address(t), token: writeFile(t, "secret\n")}
	s.startNATS()
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.server.Close()
	})
	set, err := kernels.Select("auto")
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.workers {
		s.links[i] = newLink(t, s.address)
		s.startWorker(i)
	}
	s.c, err = coordinator.Open(t.Context(), coordinator.Options{
		ModelDir: model, Version: "test", ExpertFormat: kernels.Q8, DenseFormat: kernels.Q8, KVFormat: attention.BF16, Parts: 1,
		Kernels: set, Threads: 1, Cluster: name, Workers: scheduleWorkers, Tolerant: true, Replicas: replicas,
		Connect: transport.ConnectOptions{URL: "nats://" + s.address, Token: "secret", Name: "coordinator"},
		Log: func(format string, args ...any) {
			t.Logf("%s  "+format, append([]any{time.Now().Format("05.000")}, args...)...)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.c.Close)
	t.Cleanup(s.repairs.Wait) // they use the test
	if err := s.c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scheduleCluster) startNATS() {
	server, err := transport.StartServer(transport.ServerOptions{Listen: s.address, Token: "secret"})
	if err != nil {
		s.t.Error(err)
		return
	}
	s.server = server
}

func (s *scheduleCluster) startWorker(i int) {
	s.workers[i] = startProcess(s.t, "worker", "--nats", s.links[i].url(), "--token-file", s.token, "--cluster", s.name, "--id", fmt.Sprintf("w%d", i),
		"--node", "0", "--threads", "1", "--arena-dir", s.arena)
}

// strike begins a fault; what ends it comes by itself.
func (s *scheduleCluster) strike(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, l := s.workers[f.worker], s.links[f.worker]
	later := func(end func()) {
		s.repairs.Go(func() {
			time.Sleep(f.lasts)
			s.mu.Lock()
			defer s.mu.Unlock()
			end()
		})
	}
	switch f.kind {
	case killWorker:
		_ = p.Process.Signal(syscall.SIGKILL) // not syscall.Kill: another fault may have ended it, and its pid may be a stranger's by now
		later(func() { s.again(f.worker, p) })
	case drainWorker:
		_ = p.Process.Signal(syscall.SIGTERM)
		later(func() { s.again(f.worker, p) })
	case pauseWorker:
		_ = p.Process.Signal(syscall.SIGSTOP)
		later(func() { _ = p.Process.Signal(syscall.SIGCONT) })
	case cutWorker:
		l.setCut(true)
		later(func() { l.setCut(false) })
	case rebalance:
		if err := s.c.Members().Rebalance(nil); err != nil {
			s.t.Logf("rebalance: %v", err)
		}
	case restartNATS:
		s.server.Close()
		s.startNATS()
	}
}

// again starts a worker whose process has ended or ends, unless another fault has done so.
func (s *scheduleCluster) again(i int, p *process) {
	if s.workers[i] != p {
		return
	}
	_ = p.Process.Signal(syscall.SIGCONT) // a paused one can't drain
	s.mu.Unlock()
	select {
	case <-p.ended:
	case <-time.After(waitLimit): // more than --drain-timeout
		s.t.Errorf("worker %d did not end: %s", i, p.stderr.String())
		p.Process.Kill()
		<-p.ended
	}
	s.mu.Lock()
	if s.workers[i] == p {
		s.startWorker(i)
	}
}

// heal waits until everything is as it was at the beginning.
func (s *scheduleCluster) heal() {
	s.repairs.Wait()
	waitFor(s.t, waitLimit, func() (bool, string) {
		if !s.c.Members().Covered() {
			return false, "experts of which nobody has a copy"
		}
		for _, b := range s.c.Members().Workers() {
			if b.State != transport.StateReady || s.c.Members().Lost(b.Worker) != nil {
				return false, fmt.Sprintf("worker %s, which is %s (%v)", b.Worker, b.State, s.c.Members().Lost(b.Worker))
			}
		}
		n := len(s.c.Members().Workers())
		return n == scheduleWorkers, fmt.Sprintf("%d workers, of which %d are there", scheduleWorkers, n)
	})
}

// generate runs one answer with faults and gives it, and the longest wait for a token from each kind of fault on until the next fault.
func (s *scheduleCluster) generate(faults []fault) (*generation.Result, map[faultKind]time.Duration, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), waitLimit)
	defer cancel()
	q := coordinator.Request{Prompt: coordinator.Prompt{Raw: demoPrompt}, MaxTokens: scheduleTokens, IgnoreEOS: true, KeepLogits: true}
	tokens, took := 0, map[faultKind]time.Duration{}
	var struck []faultKind // last
	var before time.Time   // when the last token came, faults that it brought included
	r, err := s.c.Generate(ctx, q, nil, func(generation.Piece) error {
		tokens++
		for _, kind := range struck {
			took[kind] = max(took[kind], time.Since(before))
		}
		begin := time.Now()
		for _, f := range faults {
			if f.token == tokens {
				if before.Before(begin) {
					before, struck = begin, nil
				}
				s.strike(f)
				struck = append(struck, f.kind)
			}
		}
		before = begin
		return nil
	})
	return r, took, err
}

// every gives a fault of a kind at each tenth token, of one worker after another.
func every(kind faultKind, lasts time.Duration) (faults []fault) {
	for token := 10; token < scheduleTokens; token += 10 {
		faults = append(faults, fault{kind, token, token / 10 % scheduleWorkers, lasts})
	}
	return faults
}

// TestNamedFaults: what docs/multi-host.md promises, one after another; the answers are those of the undisturbed run, bit for bit.
func TestNamedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("not in -short: TestFaultSchedules has the same faults")
	}
	t.Parallel()
	for _, test := range []struct {
		name   string
		copies int
		faults []fault
	}{
		{"killed every 10 tokens", 1, every(killWorker, 0)},
		{"killed every 10 tokens", 2, every(killWorker, 0)},
		{"rebalance every 10 tokens", 1, every(rebalance, 0)},
		{"rebalance every 10 tokens", 2, every(rebalance, 0)},
		{"cut off and reached again", 1, []fault{{cutWorker, 20, 1, 4 * time.Second}}},
		{"NATS restarted", 1, []fault{{restartNATS, 20, 0, 0}}},
		{"stopped for 10 s", 1, []fault{{pauseWorker, 20, 1, 10 * time.Second}}},
		{"stopped for 10 s", 2, []fault{{pauseWorker, 20, 1, 10 * time.Second}}},
	} {
		t.Run(fmt.Sprintf("%s, copies=%d", test.name, test.copies), func(t *testing.T) {
			t.Parallel()
			s := newScheduleCluster(t, "named", test.copies)
			want, _, err := s.generate(nil)
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			got, recovery, err := s.generate(test.faults)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d tokens in %v; longest wait for a token after a fault: %v", len(got.Tokens), time.Since(begin), recovery)
			if at := firstDifference(got.Logits, want.Logits); at >= 0 || !slices.Equal(got.Tokens, want.Tokens) {
				t.Fatalf("logit %d differs; tokens %v, undisturbed %v", at, got.Tokens, want.Tokens)
			}
			s.repairs.Wait()
		})
	}
}

// TestFaultSchedules: whatever happens to workers, their network, the placement and NATS while an answer grows, it is the same one, bit
// for bit.
func TestFaultSchedules(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	took := map[string][]time.Duration{}
	t.Run("all", func(t *testing.T) {
		for group := range min(scheduleGroups, *scheduleCount) {
			replicas := 1 + group%2
			t.Run(fmt.Sprintf("%d,copies=%d", group, replicas), func(t *testing.T) {
				t.Parallel()
				s := newScheduleCluster(t, fmt.Sprintf("schedules-%d", group), replicas)
				want, _, err := s.generate(nil)
				if err != nil {
					t.Fatal(err)
				}
				for i := group; i < *scheduleCount; i += scheduleGroups {
					plan := newSchedule(*scheduleSeed + uint64(i))
					t.Logf("%s  seed %d: %v", time.Now().Format("05.000"), plan.seed, plan.faults)
					got, recovery, err := s.generate(plan.faults)
					if err != nil {
						t.Fatalf("seed %d, %v: %v", plan.seed, plan.faults, err)
					}
					if !slices.Equal(got.Tokens, want.Tokens) {
						t.Fatalf("seed %d, %v: tokens %v, undisturbed %v", plan.seed, plan.faults, got.Tokens, want.Tokens)
					}
					if at := firstDifference(got.Logits, want.Logits); at >= 0 {
						t.Fatalf("seed %d, %v: the tokens are equal, logit %d is not", plan.seed, plan.faults, at)
					}
					s.heal()
					mu.Lock()
					for kind, d := range recovery {
						key := fmt.Sprintf("%v, %d copies", kind, replicas)
						took[key] = append(took[key], d)
					}
					mu.Unlock()
				}
			})
		}
	})
	var table []string
	for key, all := range took {
		slices.Sort(all)
		table = append(table, fmt.Sprintf("| %s | %d | %d | %d |", key, len(all), all[len(all)/2].Milliseconds(), all[len(all)-1].Milliseconds()))
	}
	slices.Sort(table)
	t.Logf("longest wait for a token after a fault, before the next one, ms:\n| fault | times | p50 | max |\n|---|---|---|---|\n%s", strings.Join(table, "\n"))
}
