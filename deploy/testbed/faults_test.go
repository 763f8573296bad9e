package testbed

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// A tenth of the generation in requests to workers.
const tenth = tokens / 10 * layers * 3

// A host loses its link in the middle of a generation and gets it back.
func TestPartition(t *testing.T) {
	b := start(t, []string{"h2", "h3", "h4"})
	b.during(t, func() error {
		if err := b.computed(2 * tenth); err != nil {
			return err
		}
		if err := b.Network.Cut("h3"); err != nil {
			return err
		}
		time.Sleep(6 * time.Second)
		return b.Network.Heal("h3")
	})
}

// The NATS server is ended and started again.
func TestNATSRestart(t *testing.T) {
	b := start(t, []string{"h2", "h3", "h4"})
	b.during(t, func() error {
		if err := b.computed(2 * tenth); err != nil {
			return err
		}
		if err := b.NATS.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		return until(func() bool { return b.NATS.Starts() > 1 }, "the NATS server is not started again")
	})
	if b.NATS.Starts() != 2 {
		t.Errorf("the NATS server was started %d times, want 2", b.NATS.Starts())
	}
}

// A worker is killed every ten tokens; each time, it comes back as systemd would start it.
func TestKilledWorkers(t *testing.T) {
	b := start(t, []string{"h2", "h3", "h4"})
	b.during(t, func() error {
		for _, id := range []string{"worker-h2", "worker-h3", "worker-h4", "worker-h2", "worker-h3"} {
			if err := b.computed(tenth); err != nil {
				return err
			}
			if err := b.Workers[id].Signal(syscall.SIGKILL); err != nil {
				return err
			}
		}
		return nil
	})
}

// A connection is reset again and again.
func TestResets(t *testing.T) {
	b := start(t, []string{"h2", "h3", "h4"})
	b.during(t, func() error {
		for range 3 {
			if err := b.computed(tenth); err != nil {
				return err
			}
			if err := b.proxies["worker-h3"].Reset(); err != nil {
				return err
			}
		}
		return nil
	})
}

// A connection hangs for ten seconds without an error, and goes on; then a process is stopped for ten.
func TestStalls(t *testing.T) {
	b := start(t, []string{"h2", "h3", "h4"})
	b.during(t, func() error {
		if err := b.computed(tenth); err != nil {
			return err
		}
		if err := b.proxies["worker-h2"].Stall(true); err != nil {
			return err
		}
		time.Sleep(10 * time.Second)
		return b.proxies["worker-h2"].Stall(false)
	})
	b.during(t, func() error {
		if err := b.computed(tenth); err != nil {
			return err
		}
		err := b.Workers["worker-h4"].Signal(syscall.SIGSTOP)
		time.Sleep(10 * time.Second)
		return errors.Join(err, b.Workers["worker-h4"].Signal(syscall.SIGCONT))
	})
}

// group makes three coordinators.
func group(o *Options) { o.Group = true }

// The coordinator that leads is killed twice; another one leads on, and the client's text goes on.
func TestKilledLeaders(t *testing.T) {
	b := start(t, []string{"h2", "h3", "h4"}, group)
	b.during(t, func() error {
		for range 2 {
			if err := b.computed(2 * tenth); err != nil {
				return err
			}
			host, err := b.leader()
			if err != nil {
				return err
			}
			if err := b.endLeader(host, syscall.SIGKILL); err != nil {
				return err
			}
		}
		return nil
	})
}

// until waits for what must come.
func until(happened func() bool, problem string) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if happened() {
			return nil
		}
	}
	return fmt.Errorf("%s within %v", problem, patience)
}

// leader waits until a coordinator leads, and gives its host: there may be none for a moment, and one that gets no CPU answers late.
func (b *bed) leader() (host string, err error) {
	err = until(func() bool { host = b.Leader(); return host != "" }, "nobody leads")
	return host, err
}

// endLeader ends the coordinator on a host by a signal and waits until a coordinator leads: that of another host, or this one in its next life.
func (b *bed) endLeader(host string, signal syscall.Signal) error {
	starts := b.Coordinators[host].Starts()
	if err := b.Coordinators[host].Signal(signal); err != nil {
		return err
	}
	return until(func() bool {
		now := b.Leader()
		return now != "" && (now != host || b.Coordinators[host].Starts() > starts)
	}, "nobody leads after that of "+host+" was ended")
}

// leaderAside waits for a leader that is not on h1, where the NATS server is: one that leads there is ended, which gives the lead away, as often as
// it takes.
func (b *bed) leaderAside() (string, error) {
	for range 20 {
		host, err := b.leader()
		if err != nil || host != "h1" {
			return host, err
		}
		if err := b.endLeader(host, syscall.SIGTERM); err != nil {
			return "", err
		}
	}
	return "", errors.New("the coordinator on h1 leads again and again")
}

// The host of the leader loses its link for good; the majority goes on.
func TestPartitionedLeader(t *testing.T) {
	b := start(t, []string{"h4"}, group)
	if _, err := b.leaderAside(); err != nil {
		t.Fatalf("%v\n%s", err, b.Logs())
	}
	cut := ""
	b.during(t, func() (err error) {
		if err := b.computed(2 * tenth / 3); err != nil {
			return err
		}
		if cut, err = b.leaderAside(); err != nil {
			return err
		}
		return b.Network.Cut(cut)
	})
	if err := b.Network.Heal(cut); err != nil {
		t.Fatal(err)
	}
	b.generate(t)
}
