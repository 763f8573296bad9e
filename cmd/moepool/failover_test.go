//go:build linux

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/moepool/moepool/internal/reservedport"
	"github.com/moepool/moepool/transport"
)

// answerTokens is how long the answers are that are disturbed.
const answerTokens = "2500"

// undisturbedText gives the text of an answer of one worker.
func undisturbedText(t *testing.T) string {
	t.Helper()
	p := startProcess(t, answerArguments(t, "--workers", "1")...)
	if code := p.await(t, waitLimit); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr.String())
	}
	return p.stdout.String()
}

func answerArguments(t *testing.T, more ...string) []string {
	return append([]string{"run", "--quiet", "--ignore-eos", "--raw", "--max-tokens", answerTokens, "--model", longModel(t), "--arena-dir", "none",
		demoPrompt}, more...)
}

// The answer goes on without a changed byte when a worker is killed or stopped in the middle: replicas take over, or, without any, the other
// worker loads the experts.
func TestOthersTakeOver(t *testing.T) {
	want := undisturbedText(t)
	for name, c := range map[string]struct {
		signal   syscall.Signal
		replicas string
	}{
		"killed":                  {syscall.SIGKILL, "2"},
		"killed without replicas": {syscall.SIGKILL, "1"},
		"stopped":                 {syscall.SIGSTOP, "2"},
	} {
		for _, lane := range []string{transport.LaneNATS, transport.LaneLocal} {
			t.Run(name+"/lane="+lane, func(t *testing.T) {
				p := startProcess(t, answerArguments(t, "--workers", "2", "--replicas", c.replicas, "--lane", lane)...)
				waitFor(t, waitLimit, func() (bool, string) { return len(p.stdout.String()) > 20, "text; stderr: " + p.stderr.String() })
				pids := childProcesses(p.Process.Pid)
				if len(pids) != 2 {
					t.Fatalf("%d child processes, want 2 workers", len(pids))
				}
				signalProcess(t, pids[1], c.signal)
				if so := len(p.stdout.String()); so >= len(want) {
					t.Fatalf("the signal came after the whole answer, %d bytes", so)
				}
				if code := p.await(t, waitLimit); code != 0 {
					t.Fatalf("exit code %d: %s", code, p.stderr.String())
				}
				if got := p.stdout.String(); got != want {
					t.Errorf("the text differs:\n%q\nundisturbed:\n%q", got, want)
				}
			})
		}
	}
}

// Without replicas, a worker that was killed is waited for: the answer goes on when it was started again, or when the other worker has
// loaded its experts, whichever is first.
func TestRestartedWorker(t *testing.T) {
	t.Parallel()
	address, arenas := reservedport.Address(t), t.TempDir()
	shared := []string{"--token-file", writeFile(t, "secret-of-the-test")}
	model := []string{"--model", longModel(t)}
	coordinator := startProcess(t, append(append([]string{"coordinator", "--json", "--listen", address, "--workers", "2", "--http", "none"}, shared...), model...)...)
	start := func(id string) *process {
		return startProcess(t, append(append([]string{"worker", "--nats", "nats://" + address, "--id", id, "--node", "0", "--arena-dir", arenas}, shared...), model...)...)
	}
	start("left")
	right := start("right")
	coordinator.awaitOutput(t, &coordinator.stdout, "}")
	ask := func() *process {
		return startProcess(t, append([]string{"run", "--quiet", "--nats", "nats://" + address, "--ignore-eos", "--raw", "--max-tokens", answerTokens,
			demoPrompt}, shared...)...)
	}
	first := ask()
	if code := first.await(t, waitLimit); code != 0 {
		t.Fatalf("exit code %d: %s", code, first.stderr.String())
	}
	second := ask()
	waitFor(t, waitLimit, func() (bool, string) {
		return len(second.stdout.String()) > 20, "text; stderr: " + second.stderr.String()
	})
	right.Process.Kill()
	<-right.ended
	start("right")
	if code := second.await(t, waitLimit); code != 0 {
		t.Fatalf("exit code %d: %s\ncoordinator: %s", code, second.stderr.String(), coordinator.stderr.String())
	}
	if got, want := second.stdout.String(), first.stdout.String(); got != want {
		t.Errorf("the text differs:\n%q\nundisturbed:\n%q", got, want)
	}
	t.Log(coordinator.stderr.String())
}

// With --on-missing drop the answer goes on without the experts of a worker that is gone, which is said.
func TestDropMissing(t *testing.T) {
	p := startProcess(t, answerArguments(t, "--workers", "2", "--on-missing", "drop")...)
	waitFor(t, waitLimit, func() (bool, string) { return len(p.stdout.String()) > 20, "text; stderr: " + p.stderr.String() })
	signalProcess(t, childProcesses(p.Process.Pid)[1], syscall.SIGKILL)
	if code := p.await(t, waitLimit); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr.String())
	}
	if stderr := p.stderr.String(); !strings.Contains(stderr, "left out (--on-missing drop)") {
		t.Errorf("it was not said: %q", stderr)
	}
	r := newRunReport(nil, nil, 0)
	if r.use(&transport.ExpertUsage{DroppedParts: 3}); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "3 times") || r.Experts.DroppedParts != 3 {
		t.Errorf("%+v, notes %q", r.Experts, r.Notes)
	}
}
