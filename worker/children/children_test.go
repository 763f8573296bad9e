//go:build linux

package children

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
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

// actEnv makes the test binary act as a child (or as a parent to be killed) instead of running tests.
const actEnv = "CHILDREN_TEST_ACT"

func TestMain(m *testing.M) {
	switch os.Getenv(actEnv) {
	case "":
		leaks.VerifyTestMain(m)
	case "polite":
		actPolite()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		announce()
		time.Sleep(time.Hour) // select {} alone would be a deadlock to the runtime
	case "fail":
		for i := range 30 {
			fmt.Fprintf(os.Stderr, "line %d\n", i)
		}
		fmt.Fprint(os.Stderr, "model folder /nowhere: no such file")
		os.Exit(3)
	case "pipe":
		actPipe()
	case "parent":
		actParent()
	default:
		fmt.Fprintln(os.Stderr, "unknown act")
		os.Exit(99)
	}
}

// announce writes this process's id into the folder of the test, which waits for it.
func announce() {
	name := filepath.Join(os.Getenv("CHILDREN_TEST_DIR"), os.Getenv("CHILDREN_TEST_NAME"))
	if err := os.WriteFile(name+".part", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(name+".part", name); err != nil {
		panic(err)
	}
}

func actPolite() {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	fmt.Println("secret", os.Getenv("CHILDREN_TEST_SECRET"), "arguments", os.Args[1:], "group", syscall.Getpgrp() == os.Getpid())
	announce()
	<-terminated
	fmt.Println("goodbye")
}

// actPipe ends only by the pipe's end: it ignores signals that can be ignored and undoes the parent-death signal.
func actPipe() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, 0, 0); errno != 0 {
		panic(errno)
	}
	pipe, err := ParentPipe()
	if err != nil || pipe == nil {
		panic(fmt.Sprint("no pipe from the parent: ", err))
	}
	announce()
	_, _ = io.Copy(io.Discard, pipe)
}

// actParent starts the children named in its environment and sleeps until it is killed.
func actParent() {
	spec := Spec{Log: os.Stderr}
	for i, act := range strings.Split(os.Getenv("CHILDREN_TEST_ACTS"), ",") {
		spec.Workers = append(spec.Workers, child(fmt.Sprintf("%s-%d", act, i), act, os.Getenv("CHILDREN_TEST_DIR")))
	}
	if _, err := Start(context.Background(), spec); err != nil {
		panic(err)
	}
	time.Sleep(time.Hour)
}

func child(id, act, dir string) Worker {
	return Worker{ID: id, Args: []string{"for-" + id}, Env: []string{
		actEnv + "=" + act, "CHILDREN_TEST_DIR=" + dir, "CHILDREN_TEST_NAME=" + id}}
}

// patience bounds a failing test only.
const patience = 2 * time.Minute

// eventually waits for a condition that another process brings about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// pidOf waits for the announcement of a child.
func pidOf(t *testing.T, dir, name string) int {
	t.Helper()
	var pid int
	eventually(t, name, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(string(text))
		return err == nil
	})
	return pid
}

// stateOf is a process's state as /proc has it; "" if there is no such process.
func stateOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	state, _, _ := strings.Cut(strings.TrimSpace(string(text[bytes.LastIndexByte(text, ')')+1:])), " ")
	return state
}

// gone says whether a process ended: no entry in /proc, or a zombie that nobody reaps (PID 1 of a container may not).
func gone(pid int) bool {
	state := stateOf(pid)
	return state == "" || state == "Z" || state == "X"
}

// next gives the next exit.
func next(t *testing.T, g *Group) Exit {
	t.Helper()
	select {
	case e, ok := <-g.Exits():
		if !ok {
			t.Fatal("there is no exit any more")
		}
		return e
	case <-time.After(patience):
		t.Fatal("no child ends")
	}
	return Exit{}
}

// syncBuffer is a log that test and children share.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// slowWriter takes its time for what is written first.
type slowWriter struct {
	once  sync.Once
	first time.Duration
}

func (s *slowWriter) Write(p []byte) (int, error) {
	s.once.Do(func() { time.Sleep(s.first) })
	return len(p), nil
}

func TestStopEndsPoliteChildren(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var log syncBuffer
	g, err := Start(context.Background(), Spec{
		Args: []string{"common"}, Env: []string{"CHILDREN_TEST_SECRET=token"}, Log: &log,
		Workers: []Worker{child("a", "polite", dir), child("b", "polite", dir)},
	})
	if err != nil {
		t.Fatal(err)
	}
	pids := map[string]int{"a": pidOf(t, dir, "a"), "b": pidOf(t, dir, "b")}
	if got := g.PIDs(); got["a"] != pids["a"] || got["b"] != pids["b"] || len(got) != 2 {
		t.Errorf("PIDs %v, the children say %v", got, pids)
	}
	g.Stop(patience)
	ended := map[string]Exit{}
	for e := range g.Exits() {
		ended[e.ID] = e
	}
	for id, pid := range pids {
		e := ended[id]
		if e.Err != nil || !e.Asked || e.PID != pid || !gone(pid) {
			t.Errorf("%s (pid %d): exit %+v, gone %v", id, pid, e, gone(pid))
		}
		if want := "[" + id + "] secret token arguments [common for-" + id + "] group true\n"; !strings.Contains(log.String(), want) {
			t.Errorf("log lacks %q:\n%s", want, log.String())
		}
		if want := "[" + id + "] goodbye\n"; !strings.Contains(log.String(), want) {
			t.Errorf("log lacks %q: the child had no time to end by itself", want)
		}
	}
	g.Stop(time.Second) // again: nothing to do
}

// A child that ignores SIGTERM is killed; one that is stopped goes on and ends by itself.
func TestStopEndsStubbornAndStoppedChildren(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g, err := Start(context.Background(), Spec{Workers: []Worker{child("deaf", "stubborn", dir), child("frozen", "polite", dir)}})
	if err != nil {
		t.Fatal(err)
	}
	deaf, frozen := pidOf(t, dir, "deaf"), pidOf(t, dir, "frozen")
	if err := syscall.Kill(frozen, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stop of a child", func() bool { return stateOf(frozen) == "T" })
	g.Terminate()
	if e := next(t, g); e.ID != "frozen" || e.Err != nil || !e.Asked || !gone(frozen) {
		t.Errorf("the first exit is %+v, gone %v", e, gone(frozen))
	}
	if gone(deaf) {
		t.Error("it didn't take a signal that can't be ignored")
	}
	g.Stop(10 * time.Millisecond)
	if e := next(t, g); e.ID != "deaf" || e.Err == nil || !e.Asked || !gone(deaf) {
		t.Errorf("the second exit is %+v, gone %v", e, gone(deaf))
	}
}

func TestContextEndsChildren(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	g, err := Start(ctx, Spec{Workers: []Worker{child("a", "polite", dir)}})
	if err != nil {
		t.Fatal(err)
	}
	pidOf(t, dir, "a")
	cancel()
	for e := range g.Exits() {
		if !e.Asked {
			t.Errorf("exit %+v: not asked", e)
		}
	}
}

func TestExitCarriesLastWords(t *testing.T) {
	t.Parallel()
	// A log that is slow to take the first line keeps nothing of the others back.
	g, err := Start(context.Background(), Spec{Workers: []Worker{child("w0", "fail", t.TempDir())}, Log: &slowWriter{first: 700 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	e := next(t, g)
	if e.Asked || e.Err == nil || len(e.LastLines) != lastLines {
		t.Errorf("exit %+v", e)
	}
	for _, want := range []string{"worker w0", "exit status 3", "line 29\n  model folder /nowhere: no such file"} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("message lacks %q:\n%s", want, e.Error())
		}
	}
	g.Stop(time.Second)
}

func TestStartAllOrNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Start(context.Background(), Spec{Binary: filepath.Join(dir, "absent"), Workers: []Worker{{ID: "x"}}}); err == nil ||
		!strings.Contains(err.Error(), "start worker x") {
		t.Errorf("absent binary: %v", err)
	}
	if _, err := Start(context.Background(), Spec{Workers: []Worker{{ID: "x"}, {ID: "x"}}}); err == nil {
		t.Error("two workers of one id were started")
	}
}

// TestKilledParent: kill -9 of the parent ends the children, by the parent-death signal and, where that is lost, by the pipe.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g, err := Start(context.Background(), Spec{Workers: []Worker{{ID: "parent", Env: []string{
		actEnv + "=parent", "CHILDREN_TEST_DIR=" + dir, "CHILDREN_TEST_ACTS=stubborn,pipe"}}}})
	if err != nil {
		t.Fatal(err)
	}
	stubborn, pipe := pidOf(t, dir, "stubborn-0"), pidOf(t, dir, "pipe-1")
	if gone(stubborn) || gone(pipe) {
		t.Fatal("a child ended before its parent")
	}
	parent := g.PIDs()["parent"]
	if parent == 0 { // which is this process's own group
		t.Fatal("the parent has ended")
	}
	if err := syscall.Kill(parent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the child with a death signal", func() bool { return gone(stubborn) })
	eventually(t, "the end of the child with the pipe only", func() bool { return gone(pipe) })
	g.Stop(time.Second)
}

// TestStartingThreadStays: the Go runtime ends threads whose locked goroutine returns; children that were forked from one must not
// die with it.
func TestStartingThreadStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var g *Group
	var err error
	var caller sync.WaitGroup
	caller.Go(func() {
		// Start from a goroutine that takes its thread with it.
		runtime.LockOSThread()
		g, err = Start(context.Background(), Spec{Workers: []Worker{child("a", "polite", dir)}})
	})
	caller.Wait()
	if err != nil {
		t.Fatal(err)
	}
	pid := pidOf(t, dir, "a")
	g.Stop(patience)
	if e := next(t, g); e.Err != nil || e.PID != pid {
		t.Errorf("exit %+v: the child was killed with the caller's thread", e)
	}
}

func TestParentPipeRefusesStrangers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, value := range []string{"x", "-1", "999999", strconv.Itoa(int(f.Fd()))} {
		t.Setenv(ParentPipeEnv, value)
		if p, err := ParentPipe(); err == nil || p != nil {
			t.Errorf("%s=%s was taken", ParentPipeEnv, value)
		}
	}
	os.Unsetenv(ParentPipeEnv)
	if p, err := ParentPipe(); err != nil || p != nil {
		t.Errorf("without the variable: %v, %v", p, err)
	}
}

func TestLinesCutEndlessOnes(t *testing.T) {
	t.Parallel()
	l := &lines{id: "w", mutex: new(sync.Mutex)}
	for range 5 {
		if _, err := l.Write(bytes.Repeat([]byte("x"), longestLine/2)); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.rest) > longestLine {
		t.Errorf("%d bytes are held back", len(l.rest))
	}
	if _, err := l.Write([]byte("\na\r\nb")); err != nil {
		t.Fatal(err)
	}
	l.flush()
	got := l.last()
	if n := len(got); n < 3 || got[n-2] != "a" || got[n-1] != "b" {
		t.Errorf("lines end with %q", got[max(0, len(got)-2):])
	}
}
