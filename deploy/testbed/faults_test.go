package testbed

import (
	"errors"
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
		return b.NATS.Signal(syscall.SIGTERM) // it is started again half a second later
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
			host := b.Leader()
			if host == "" {
				return errors.New("nobody leads")
			}
			if err := b.Coordinators[host].Signal(syscall.SIGKILL); err != nil {
				return err
			}
			if err := b.otherLeader(host); err != nil {
				return err
			}
		}
		return nil
	})
}

// otherLeader waits until a coordinator leads after that of host was killed.
func (b *bed) otherLeader(host string) error {
	begin := time.Now()
	starts := b.Coordinators[host].Starts()
	for time.Since(begin) < 20*time.Second {
		if now := b.Leader(); now != "" && (now != host || b.Coordinators[host].Starts() > starts) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("nobody leads after " + host + " was killed")
}

// The host of the leader loses its link for good; the majority goes on.
func TestPartitionedLeader(t *testing.T) {
	b := start(t, []string{"h4"}, group)
	if b.Leader() == "h1" { // NATS is there
		if err := b.Coordinators["h1"].Signal(syscall.SIGTERM); err != nil { // hands the leadership over
			t.Fatal(err)
		}
		if err := b.otherLeader("h1"); err != nil {
			t.Fatal(err)
		}
	}
	cut := ""
	b.during(t, func() error {
		if err := b.computed(2 * tenth / 3); err != nil {
			return err
		}
		cut = b.Leader()
		return b.Network.Cut(cut)
	})
	if err := b.Network.Heal(cut); err != nil {
		t.Fatal(err)
	}
	b.generate(t)
}
