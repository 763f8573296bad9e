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
