//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moepool/moepool/internal/reservedport"
	"github.com/moepool/moepool/transport"
)

// loaded is what a machine that is busy with other tests may take on top of the limits that are promised: the log has what it took.
const loaded = time.Minute

// generating starts a long answer with two workers and waits until its text comes; it gives the workers' pids.
func generating(t *testing.T, args ...string) (*process, []int) {
	t.Helper()
	p := startProcess(t, append([]string{"run", "--quiet", "--workers", "2", "--ignore-eos", "--raw", "--max-tokens", "4000",
		"--model", longModel(t), "--arena-dir", "none", demoPrompt}, args...)...)
	waitFor(t, waitLimit, func() (bool, string) {
		return len(p.stdout.String()) > 20, "text of a long answer; stderr: " + p.stderr.String()
	})
	pids := childProcesses(p.Process.Pid)
	if len(pids) != 2 {
		t.Fatalf("%d child processes, want 2 workers", len(pids))
	}
	return p, pids
}

// With --on-missing fail a worker that dies ends the request with an error that names it; nothing is left behind.
func TestKilledWorker(t *testing.T) {
	for _, lane := range []string{transport.LaneNATS, transport.LaneLocal} {
		t.Run("lane="+lane, func(t *testing.T) {
			p, pids := generating(t, "--on-missing", "fail", "--lane", lane)
			signalProcess(t, pids[1], syscall.SIGKILL)
			begin := time.Now()
			if code := p.await(t, 5*time.Second+loaded); code != exitFailure {
				t.Errorf("exit code %d, want %d", code, exitFailure)
			}
			t.Logf("ended %v after SIGKILL", time.Since(begin))
			if stderr := p.stderr.String(); !strings.Contains(stderr, "-node0-") || !strings.Contains(stderr, "killed") {
				t.Errorf("the error does not name the worker: %q", stderr)
			}
			assertGone(t, pids, loaded)
		})
	}
}

// So does one that hangs, after five seconds of silence.
func TestHangingWorker(t *testing.T) {
	for _, lane := range []string{transport.LaneNATS, transport.LaneLocal} {
		t.Run("lane="+lane, func(t *testing.T) {
			p, pids := generating(t, "--on-missing", "fail", "--lane", lane)
			signalProcess(t, pids[0], syscall.SIGSTOP)
			begin := time.Now()
			if code := p.await(t, 5*time.Second+loaded); code != exitFailure {
				t.Errorf("exit code %d, want %d", code, exitFailure)
			}
			t.Logf("ended %v after SIGSTOP", time.Since(begin))
			if stderr := p.stderr.String(); !strings.Contains(stderr, "-node0-") {
				t.Errorf("the error does not name the worker: %q", stderr)
			}
			assertGone(t, pids, loaded)
		})
	}
}

// Workers of run do not survive their coordinator.
func TestKilledCoordinator(t *testing.T) {
	p, pids := generating(t)
	p.Process.Kill()
	begin := time.Now()
	assertGone(t, pids, 5*time.Second+loaded)
	t.Logf("workers ended %v after their coordinator", time.Since(begin))
}

func TestInterrupt(t *testing.T) {
	p, pids := generating(t)
	signalProcess(t, p.Process.Pid, syscall.SIGINT)
	begin := time.Now()
	if code := p.await(t, 2*time.Second+loaded); code != exitInterrupted {
		t.Errorf("exit code %d, want %d; stderr: %s", code, exitInterrupted, p.stderr.String())
	}
	t.Logf("ended %v after Ctrl-C", time.Since(begin))
	assertGone(t, pids, 0)
}

// A coordinator and workers started by hand: the workers outlive the coordinator and serve the next one.
func TestByHand(t *testing.T) {
	t.Parallel()
	token := writeFile(t, "secret-of-the-test\n")
	address := reservedport.Address(t)
	shared := []string{"--token-file", token}
	start := func() *process {
		c := startProcess(t, append([]string{"coordinator", "--json", "--listen", address, "--workers", "2", "--http", "127.0.0.1:0"}, shared...)...)
		return c
	}
	coordinator := start()
	arena := t.TempDir()
	var workers []*process
	for _, id := range []string{"left", "right"} {
		workers = append(workers, startProcess(t, append([]string{"worker", "--nats", "nats://" + address, "--id", id, "--node", "0",
			"--arena-dir", arena}, shared...)...))
	}
	coordinator.awaitOutput(t, &coordinator.stdout, "}")
	var ready coordinatorReady
	if err := json.Unmarshal([]byte(coordinator.stdout.String()), &ready); err != nil {
		t.Fatal(err)
	}
	ask := func() runReport {
		return runJSON(t, append([]string{"--nats", "nats://" + address, "--max-tokens", "12", demoPrompt}, shared...)...)
	}
	first := ask()
	if alone := runJSON(t, "--max-tokens", "12", demoPrompt); alone.Text != first.Text || first.FinishReason != "length" {
		t.Errorf("by hand %q (%s), alone %q", first.Text, first.FinishReason, alone.Text)
	}
	metrics := httpGet(t, "http://"+ready.HTTP+"/metrics")
	for _, want := range []string{"moepool_generated_tokens_total 12", "moepool_time_to_first_token_seconds_count 1",
		`moepool_worker_requests_total{worker="left"}`, `moepool_worker_latency_seconds_count{worker="left"}`, "moepool_expert_hits_total", `moepool_worker_arena_fallbacks{worker="right"} 0`,
		`moepool_worker_pages_local{worker="left"}`, "moepool_placement_epoch 1", "moepool_placement_uncovered_parts 0", "moepool_workers_lost_total 0"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if body := httpGet(t, "http://"+ready.HTTP+"/healthz"); !strings.Contains(body, "ok") {
		t.Errorf("/healthz says %q", body)
	}
	httpGet(t, "http://"+ready.HTTP+"/readyz")

	coordinator.Process.Kill()
	<-coordinator.ended
	second := start()
	second.awaitOutput(t, &second.stdout, "}")
	if again := ask(); again.Text != first.Text {
		t.Errorf("after a new coordinator %q, before %q", again.Text, first.Text)
	}
	signalProcess(t, workers[0].Process.Pid, syscall.SIGTERM)
	begin := time.Now()
	if code := workers[0].await(t, 10*time.Second+loaded); code != 0 {
		t.Errorf("a worker told to end has exit code %d: %s", code, workers[0].stderr.String())
	}
	t.Logf("ended %v after SIGTERM", time.Since(begin))
	if stderr := workers[0].stderr.String(); !strings.Contains(stderr, "is leaving") || strings.Contains(stderr, "has not let it go") {
		t.Errorf("its experts were not taken over: %s", stderr)
	}
	if without := ask(); without.Text != first.Text {
		t.Errorf("with one worker %q, before %q", without.Text, first.Text)
	}
	signalProcess(t, second.Process.Pid, syscall.SIGTERM)
	if code := second.await(t, 5*time.Second+loaded); code != exitTerminated {
		t.Errorf("a coordinator told to end has exit code %d: %s", code, second.stderr.String())
	}
}

// Workers of --all-nodes drain as others do; the second signal ends them at once.
func TestAllNodesDrain(t *testing.T) {
	t.Parallel()
	token := writeFile(t, "secret-of-the-test\n")
	address := reservedport.Address(t)
	coordinator := startProcess(t, "coordinator", "--json", "--listen", address, "--token-file", token, "--http", "127.0.0.1:0")
	workers := startProcess(t, "worker", "--all-nodes", "--host", "rack1.host7", "--nats", "nats://"+address, "--token-file", token, "--arena-dir", "none")
	coordinator.awaitOutput(t, &coordinator.stdout, "}")
	if out := coordinator.stdout.String(); !strings.Contains(out, "rack1-host7-node") {
		t.Errorf("the workers' ids are not made of --host: %s", out)
	}
	pids := childProcesses(workers.Process.Pid)
	if len(pids) == 0 {
		t.Fatal("no child processes")
	}
	signalProcess(t, workers.Process.Pid, syscall.SIGTERM)
	workers.awaitOutput(t, &workers.stderr, "is leaving")
	// Nobody else could take the experts.
	if text := runJSON(t, "--nats", "nats://"+address, "--token-file", token, "--max-tokens", "4", demoPrompt); text.FinishReason != "length" {
		t.Errorf("while they drain: %+v", text)
	}
	signalProcess(t, workers.Process.Pid, syscall.SIGTERM)
	if code := workers.await(t, 2*time.Second+loaded); code != exitTerminated {
		t.Errorf("exit code %d, want %d; stderr: %s", code, exitTerminated, workers.stderr.String())
	}
	assertGone(t, pids, 0)
	signalProcess(t, coordinator.Process.Pid, syscall.SIGTERM)
	coordinator.await(t, 5*time.Second+loaded)
}

// A worker whose model, format or parts differ is refused, and both values are named on both sides.
func TestMismatchIsRefused(t *testing.T) {
	t.Parallel()
	address := reservedport.Address(t)
	token := writeFile(t, "secret-of-the-test")
	coordinator := startProcess(t, "coordinator", "--listen", address, "--token-file", token, "--format", "q8", "--http", "none")
	coordinator.awaitOutput(t, &coordinator.stderr, "waiting for 1 worker")
	worker := startProcess(t, "worker", "--nats", "nats://"+address, "--token-file", token, "--format", "bf16", "--id", "odd", "--arena-dir", "none")
	if code := worker.await(t, waitLimit); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	for _, want := range []string{"bf16", "q8"} {
		if !strings.Contains(worker.stderr.String(), want) {
			t.Errorf("the worker's error %q does not name %s", worker.stderr.String(), want)
		}
		coordinator.awaitOutput(t, &coordinator.stderr, want)
	}
	coordinator.awaitOutput(t, &coordinator.stderr, "odd")
	startProcess(t, "worker", "--nats", "nats://"+address, "--token-file", token, "--id", "even", "--arena-dir", "none")
	coordinator.awaitOutput(t, &coordinator.stderr, "ready: 1 worker")
}
