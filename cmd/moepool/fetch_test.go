//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/internal/reservedport"
	"github.com/moepool/moepool/transport"
)

// TestFetch: workers whose hosts lack the model take the files that hold their experts, and no others; the text is that of one host with the model. Without
// --fetch they say what is missing and what to do.
func TestFetch(t *testing.T) {
	t.Parallel()
	model := t.TempDir()
	spec := synth.Tiny("qwen3_moe")
	spec.Layers, spec.ShardBytes, spec.DenseLayers = 6, 400_000, nil
	if err := synth.Write(model, spec, nil); err != nil {
		t.Fatal(err)
	}
	all, _ := filepath.Glob(filepath.Join(model, "*.safetensors"))
	address, token := reservedport.Address(t), writeFile(t, "secret")
	coordinator := startProcess(t, "coordinator", "--json", "--model", model, "--listen", address, "--token-file", token, "--workers", "2", "--http", "none",
		"--offer-model", "--offer-dir", t.TempDir())
	at := []string{"--nats", "nats://" + address, "--token-file", token}
	folder := func() string { return filepath.Join(t.TempDir(), "new") }
	coordinator.awaitOutput(t, &coordinator.stderr, "is offered")
	for _, dir := range []string{folder(), t.TempDir()} {
		stderr := moepoolFails(t, exitFailure, append([]string{"worker", "--id", "poor", "--model", dir, "--arena-dir", "none"}, at...)...)
		if !strings.Contains(stderr, dir) || !strings.Contains(stderr, "--fetch") || !strings.Contains(stderr, "--offer-model") {
			t.Errorf("a host without the model: %s", stderr)
		}
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "config.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	stderr := moepoolFails(t, exitFailure, append([]string{"worker", "--fetch", "--id", "poor", "--model", foreign, "--arena-dir", "none"}, at...)...)
	if !strings.Contains(stderr, foreign) || !strings.Contains(stderr, "another model") {
		t.Errorf("a folder of another model: %s", stderr)
	}
	arena, dirs := t.TempDir(), map[string]string{"left": folder(), "right": folder()}
	start := func(id string) *process {
		return startProcess(t, append([]string{"worker", "--fetch", "--id", id, "--node", "0", "--model", dirs[id], "--arena-dir", arena}, at...)...)
	}
	workers := map[string]*process{"left": start("left"), "right": start("right")}
	coordinator.awaitOutput(t, &coordinator.stdout, "}")
	alone := runJSON(t, "--model", model, "--prompt-tokens", "5,6,7", "--max-tokens", "12", "--ignore-eos", "--arena-dir", "none")
	ask := func() runReport {
		return runJSON(t, append([]string{"--prompt-tokens", "5,6,7", "--max-tokens", "12", "--ignore-eos"}, at...)...)
	}
	if r := ask(); r.Text != alone.Text || len(r.Tokens) != 12 {
		t.Errorf("%v, on one host %v", r.Tokens, alone.Tokens)
	}
	had := map[string][]string{}
	for id, dir := range dirs {
		got, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
		had[id] = got
		t.Logf("%s has %d of %d files", id, len(got), len(all))
		if len(got) == 0 || len(got) >= len(all) {
			t.Errorf("%s has %d of %d files", id, len(got), len(all))
		}
		for _, want := range []string{"fetching model-", "is fetched into " + dir} {
			workers[id].awaitOutput(t, &workers[id].stderr, want)
		}
	}
	// A restarted worker needs nothing again. If its start takes so long that the other one gets its experts, it may get others, whose files it lacks.
	workers["left"].Process.Kill()
	<-workers["left"].ended
	again := start("left")
	again.awaitOutput(t, &again.stderr, "is ready")
	for _, path := range had["left"] {
		if text := again.stderr.String(); strings.Contains(text, "fetching "+filepath.Base(path)+":") {
			t.Errorf("fetched again: %s", text)
		}
	}
	if r := ask(); r.Text != alone.Text {
		t.Errorf("%v, on one host %v", r.Tokens, alone.Tokens)
	}
}

// TestFetchNothing: without an object store a worker says so; without a model in it it waits, until it is told to end.
func TestFetchNothing(t *testing.T) {
	t.Parallel()
	worker := func(server *transport.Server) []string {
		return []string{"worker", "--fetch", "--id", "w", "--nats", server.URL(), "--token-file", writeFile(t, server.Token()), "--arena-dir", "none"}
	}
	if stderr := moepoolFails(t, exitFailure, worker(newServer(t))...); !strings.Contains(stderr, "JetStream") || strings.Contains(stderr, "goroutine") {
		t.Errorf("without an object store: %s", stderr)
	}
	server, err := transport.StartServer(transport.ServerOptions{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	w := startProcess(t, worker(server)...)
	w.awaitOutput(t, &w.stderr, "waiting for a coordinator of cluster default that offers its model")
	signalProcess(t, w.Process.Pid, syscall.SIGTERM)
	if code := w.await(t, waitLimit); strings.Contains(w.stderr.String(), "goroutine") || code != exitTerminated && code != 0 {
		t.Errorf("exit code %d: %s", code, w.stderr.String())
	}
}
