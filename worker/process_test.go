//go:build linux

package worker

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/internal/leaks"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/children"
	"github.com/moepool/moepool/worker/shard"
)

// roleVariable makes the test binary a worker process.
const roleVariable = "WORKER_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(playRole())
	}
	leaks.VerifyTestMain(m)
}

// playRole is what `moepool worker` does, without its flags.
func playRole() int {
	log := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	topology, err := numa.Read()
	if err != nil {
		log("%v", err)
		return 1
	}
	node := topology.ComputeNodes()[0].ID
	if text := os.Getenv("WORKER_TEST_NODE"); text != "" {
		if node, err = strconv.Atoi(text); err != nil {
			log("%v", err)
			return 1
		}
	}
	if _, bound := numa.Bound(); !bound {
		n, err := topology.Node(node)
		if err == nil {
			err = numa.ExecPinned(n, false, []string{"/proc/self/exe"}, os.Environ())
		}
		log("%v", err)
		return 1
	}
	parent, err := children.ParentPipe()
	if err != nil {
		log("%v", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	format, err := kernels.ParseFormat(os.Getenv("WORKER_TEST_FORMAT"))
	if err != nil {
		log("%v", err)
		return 1
	}
	err = Run(ctx, Options{
		ID: os.Getenv("WORKER_TEST_ID"), ModelDir: os.Getenv("WORKER_TEST_MODEL"), Format: format, Node: node, ArenaDir: os.Getenv("WORKER_TEST_ARENA"),
		Connect:    transport.ConnectOptions{URL: os.Getenv("WORKER_TEST_URL"), Token: os.Getenv("WORKER_TEST_TOKEN")},
		ParentPipe: parent, Log: log,
	})
	if err != nil {
		log("%v", err)
		return 1
	}
	return 0
}

// startProcess starts a worker process, bound to a node ("" is the first).
func (b *bench) startProcess(id, node, arenaDir string, f kernels.Format) *children.Group {
	b.t.Helper()
	g, err := children.Start(context.Background(), children.Spec{
		Env: []string{roleVariable + "=worker", "WORKER_TEST_MODEL=" + b.model.Dir(), "WORKER_TEST_FORMAT=" + f.String(),
			"WORKER_TEST_URL=" + b.server.URL(), "WORKER_TEST_TOKEN=" + b.server.Token(), "WORKER_TEST_ARENA=" + arenaDir},
		Workers: []children.Worker{{ID: id, Env: []string{"WORKER_TEST_ID=" + id, "WORKER_TEST_NODE=" + node}}},
		Log:     logWriter{b.t},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { g.Stop(time.Second) })
	return g
}

// TestAdopts: a worker that is killed leaves its arena to the next process with its id, which packs nothing and serves the same experts.
func TestAdopts(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	layers, dir := shard.Whole(b.model.Config(), 1), t.TempDir()
	ref := b.reference(kernels.Q8, 1)
	var first, second *transport.Beat
	for _, beat := range []**transport.Beat{&first, &second} {
		g := b.startProcess("w0", "", dir, kernels.Q8)
		b.await("a new process", "w0", func(b *transport.Beat) bool {
			return b.State == transport.StateIdle && (first == nil || b.Instance != first.Instance)
		})
		// The coordinator's table does this.
		b.requester.Address("w0", "")
		if err := b.assign("w0", 1, 1, b.identity(kernels.Q8, 1), layers); err != nil {
			t.Fatal(err)
		}
		*beat = b.await("served", "w0", func(b *transport.Beat) bool { return slices.Equal(b.Serves, []uint64{1}) && b.PID == g.PIDs()["w0"] })
		w := ref.work(t, 1, 1, 2, 0, 3, 7)
		r, err := b.ask("w0", w)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(r.Sum) != ref.sum(t, w) {
			t.Error("the sums differ")
		}
		if err := syscall.Kill((*beat).PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-g.Exits()
	}
	if first.Arena.PackedBytes != first.TotalBytes || second.Arena.PackedBytes != 0 || second.Arena.ReusedBytes != first.TotalBytes {
		t.Errorf("first %+v, second %+v, the experts have %d bytes", first.Arena, second.Arena, first.TotalBytes)
	}
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// TestAnonymousMemory: with files a worker owns next to no memory of its own (the mapped weights are page cache), without files about
// all weights; either way it is bound to its node, and SIGTERM ends it well.
func TestAnonymousMemory(t *testing.T) {
	t.Parallel()
	s := synth.Tiny("mixtral")
	s.Layers, s.Hidden, s.ExpertIntermediate = 2, 512, 2048
	b := newBench(t, s)
	layers := shard.Whole(b.model.Config(), 1)
	for id, dir := range map[string]string{"files": t.TempDir(), "anonymous": "none"} {
		g := b.startProcess(id, "", dir, kernels.BF16)
		idle := b.awaitState(id, transport.StateIdle)
		if idle.PID != g.PIDs()[id] || idle.PID == os.Getpid() || len(idle.CPUs) == 0 {
			t.Errorf("%s: %+v", id, idle)
		}
		if permitted := numa.Try(); idle.Bound != permitted.SetAffinity {
			t.Errorf("%s: bound %v, setting the affinity is permitted: %v", id, idle.Bound, permitted.SetAffinity)
		}
		if err := b.assign(id, 1, 1, b.identity(kernels.BF16, 1), layers); err != nil {
			t.Fatal(err)
		}
		ready := b.awaitState(id, transport.StateReady)
		if ready.TotalBytes < 90<<20 {
			t.Fatalf("the experts have %d bytes only", ready.TotalBytes)
		}
		grown := float64(ready.RSSAnon-idle.RSSAnon) / float64(ready.TotalBytes)
		t.Logf("%s: anonymous memory %d KiB idle, %d KiB ready, experts %d KiB; pages %+v", id, idle.RSSAnon>>10, ready.RSSAnon>>10, ready.TotalBytes>>10, ready.Pages)
		if dir == "none" && (grown < 0.95 || grown > 1.2) || dir != "none" && grown > 0.1 { // the race detector needs some, too
			t.Errorf("%s: anonymous memory grew by %.1f %% of the experts' bytes", id, 100*grown)
		}
		if ready.Pages.Local == 0 || ready.Pages.Remote > ready.Pages.Local/20 {
			t.Errorf("%s: pages %+v", id, ready.Pages)
		}
		g.Stop(patience)
		if e := <-g.Exits(); e.Err != nil {
			t.Errorf("%s: %v", id, e)
		}
	}
}
