package testbed

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	seed      = flag.Uint64("seed", 1, "of the random fault schedules")
	schedules = flag.Int("schedules", 5, "number of random fault schedules")
	only      = flag.Int("schedule", -1, "run this one of them alone")
)

// event is one fault: what happens to whom, after how many requests to workers since the one before, and for how long.
type event struct {
	after  int
	what   string
	victim string
	length time.Duration
}

func (e event) String() string {
	return fmt.Sprintf("after %d requests: %s %s for %v", e.after, e.what, e.victim, e.length)
}

// schedule is number n of a seed: the same at each call.
func schedule(seed uint64, n int) (events []event) {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	for range 1 + random.IntN(4) {
		e := event{after: layers * 3 * (2 + random.IntN(12)), length: time.Duration(200+random.IntN(5000)) * time.Millisecond}
		switch e.what = pick("kill", "kill", "stop", "cut", "reset", "stall", "restart", "lead"); e.what {
		case "kill", "stop", "reset", "stall":
			e.victim = pick("worker-h2", "worker-h3", "worker-h4")
		case "cut": // not h4, where the client is, nor h1, where NATS is
			e.victim = pick("h2", "h3")
		case "restart":
			e.victim = "nats"
		case "lead":
			e.victim = "leader"
		}
		events = append(events, e)
	}
	return events
}

// do lets an event happen and, where it lasts, end.
func (b *bed) do(e event) error {
	switch e.what {
	case "kill":
		return b.Workers[e.victim].Signal(syscall.SIGKILL)
	case "stop":
		err := b.Workers[e.victim].Signal(syscall.SIGSTOP)
		time.Sleep(e.length)
		return errors.Join(err, b.Workers[e.victim].Signal(syscall.SIGCONT))
	case "cut":
		err := b.Network.Cut(e.victim)
		time.Sleep(e.length)
		return errors.Join(err, b.Network.Heal(e.victim))
	case "reset":
		return b.proxies[e.victim].Reset()
	case "stall":
		err := b.proxies[e.victim].Stall(true)
		time.Sleep(e.length)
		return errors.Join(err, b.proxies[e.victim].Stall(false))
	case "restart":
		return b.NATS.Signal(syscall.SIGTERM)
	case "lead":
		if host := b.Leader(); host != "" {
			return b.Coordinators[host].Signal(syscall.SIGKILL)
		}
		return nil // between two leaders
	}
	return fmt.Errorf("unknown event %q", e.what)
}

// Random faults at random moments, with one and with two owners of each expert: all tokens, whatever happened.
// One schedule again: .ci/testbed -test.run TestRandomFaults -seed S -schedule N
func TestRandomFaults(t *testing.T) {
	b := start(t, []string{"h2", "h3", "h4"}, group, func(o *Options) { o.Coordinator = []string{"--replicas", fmt.Sprint(1 + *seed%2)} })
	b.slow(t, pace/4)
	longest := time.Duration(0)
	for n := range *schedules {
		if *only >= 0 && n != *only {
			continue
		}
		events := schedule(*seed, n)
		text := make([]string, len(events))
		for i, e := range events {
			text[i] = e.String()
		}
		answered := make(chan struct{})
		failed := make(chan error, 1)
		go func() {
			for _, e := range events {
				if err := b.computedUnless(e.after, answered); err != nil {
					if errors.Is(err, errEnded) { // before this event's time
						err = nil
					}
					failed <- err
					return
				}
				if err := b.do(e); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
		a, err := b.Ask("h4", tokens, patience)
		close(answered)
		wrong := <-failed
		switch {
		case wrong != nil:
			err = wrong
		case err == nil && !slices.Equal(a.Tokens, b.want.Tokens):
			err = fmt.Errorf("tokens %v, want those of the undisturbed run %v", a.Tokens, b.want.Tokens)
		}
		if err != nil {
			t.Fatalf("seed %d, schedule %d (%s): %v\n%s", *seed, n, strings.Join(text, "; "), err, b.Logs())
		}
		longest = max(longest, a.Took)
		t.Logf("schedule %d: %.1f s (%s)", n, a.Took.Seconds(), strings.Join(text, "; "))
		if err := b.waitReady(patience); err != nil {
			t.Fatalf("seed %d, schedule %d (%s): afterwards: %v", *seed, n, strings.Join(text, "; "), err)
		}
	}
	t.Logf("seed %d: no wrong token and no lost request; the slowest took %.1f s", *seed, longest.Seconds())
}
