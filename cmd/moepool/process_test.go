//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moepool/moepool/internal/leaks"
)

// asCommand makes the test binary behave as moepool itself, so that tests run the product's own processes.
const asCommand = "MOEPOOL_TEST_AS_COMMAND"

func testMain(m *testing.M) int {
	if os.Getenv(asCommand) != "" {
		return run(os.Args[1:])
	}
	cache, err := os.MkdirTemp("", "moepool-test-cache")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(cache)
	os.Setenv("XDG_CACHE_HOME", cache) // never the user's own
	flag.Parse()
	if !isSet("test.parallel") && runtime.GOMAXPROCS(0) < leastParallel {
		if err := flag.Set("test.parallel", strconv.Itoa(leastParallel)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	if err := leaks.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// leastParallel is how many tests run at once on few CPUs: half of their time they wait for processes that start, are silent, or come back.
const leastParallel = 4

// isSet says whether a flag is on the command line.
func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// process is a moepool command under test.
type process struct {
	*exec.Cmd
	stdout, stderr lockedBuffer
	ended          chan struct{}
	err            error
}

// waitLimit is how long a command may take that does little.
const waitLimit = 2 * time.Minute

// newProcess describes a command line.
func newProcess(t testing.TB, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(self, args...), ended: make(chan struct{})}
	p.Env = append(os.Environ(), asCommand+"=1")
	p.Cmd.Stdout, p.Cmd.Stderr = &p.stdout, &p.stderr
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return p
}

// startProcess starts a command line.
func startProcess(t testing.TB, args ...string) *process {
	t.Helper()
	p := newProcess(t, args...)
	p.start(t)
	return p
}

// start starts the process; it is killed at the end of the test if it still runs.
func (p *process) start(t testing.TB) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		select {
		case <-p.ended:
		default:
			p.Process.Kill()
			<-p.ended
		}
	})
}

// await waits for the end and gives the exit code.
func (p *process) await(t testing.TB, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		t.Fatalf("%v still runs after %v; stderr:\n%s", p.Args[1:], limit, p.stderr.String())
	}
	return p.ProcessState.ExitCode()
}

// awaitOutput waits until the buffer contains text.
func (p *process) awaitOutput(t testing.TB, b *lockedBuffer, text string) {
	t.Helper()
	waitFor(t, 60*time.Second, func() (bool, string) {
		select {
		case <-p.ended:
			if !strings.Contains(b.String(), text) {
				t.Fatalf("%v ended (%v) without %q; stderr:\n%s", p.Args[1:], p.err, text, p.stderr.String())
			}
		default:
		}
		return strings.Contains(b.String(), text), fmt.Sprintf("%q in the output of %v; stderr:\n%s", text, p.Args[1:], p.stderr.String())
	})
}

// waitFor polls a condition; what says what was waited for.
func waitFor(t testing.TB, limit time.Duration, condition func() (done bool, what string)) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		done, what := condition()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", limit, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// moepool runs a command line to its end and gives stdout; it must succeed.
func moepool(t testing.TB, args ...string) string {
	t.Helper()
	p := startProcess(t, args...)
	if code := p.await(t, waitLimit); code != 0 {
		t.Fatalf("moepool %v: exit code %d; stderr:\n%s", args, code, p.stderr.String())
	}
	return p.stdout.String()
}

// moepoolFails runs a command line that must fail with a code, and gives stderr.
func moepoolFails(t testing.TB, code int, args ...string) string {
	t.Helper()
	p := startProcess(t, args...)
	if got := p.await(t, waitLimit); got != code {
		t.Fatalf("moepool %v: exit code %d, want %d; stderr:\n%s", args, got, code, p.stderr.String())
	}
	return p.stderr.String()
}

// runJSON is `run --json`.
func runJSON(t testing.TB, args ...string) runReport {
	t.Helper()
	var r runReport
	decoder := json.NewDecoder(strings.NewReader(moepool(t, append([]string{"run", "--json"}, args...)...)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// lockedBuffer is a buffer that is written and read at once.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var _ io.Writer = (*lockedBuffer)(nil)

// childProcesses gives the pids of the living children of a process (zombies are not alive).
func childProcesses(pid int) []int {
	var children []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, found := strings.Cut(string(data), ") ")
		var state string
		var parent, child int
		if !found {
			continue
		}
		fmt.Sscan(rest, &state, &parent)
		fmt.Sscan(string(data), &child)
		if parent == pid && state != "Z" && state != "X" {
			children = append(children, child)
		}
	}
	return children
}

// alive says whether a process exists and is no zombie.
func alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// assertGone waits until none of the processes is alive.
func assertGone(t testing.TB, pids []int, limit time.Duration) {
	t.Helper()
	waitFor(t, limit, func() (bool, string) {
		for _, pid := range pids {
			if alive(pid) {
				return false, fmt.Sprintf("the end of process %d", pid)
			}
		}
		return true, ""
	})
}

// signalProcess sends a signal to a process that a test started, directly or through moepool.
func signalProcess(t testing.TB, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("signal %v to %d: %v", s, pid, err)
	}
}
