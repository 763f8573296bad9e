// Package children starts worker processes that must not outlive this one, watches them, and stops them. It owns the tie
// between parent and child (process group, parent-death signal, the pipe whose end tells a child that its parent is gone) and
// the last words of a child that failed. It must not know what the processes do.
package children

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Worker is one process to start.
type Worker struct {
	ID   string
	Args []string // after Spec.Args
	Env  []string // after Spec.Env
}

// Spec describes the processes.
type Spec struct {
	Binary  string   // "" is this executable
	Args    []string // for every process, e.g. "worker", "--model", DIR
	Env     []string // KEY=VALUE, added to this process's environment: the place for a token, which never belongs in arguments
	Workers []Worker
	// Log receives a child's standard error and standard output line by line, each with "[id] " in front; nil drops them (the
	// last lines are kept for Exit all the same).
	Log io.Writer
}

// Exit tells that a process ended.
type Exit struct {
	ID        string
	PID       int
	Err       error    // nil after exit status 0; else what exec.Cmd.Wait says
	LastLines []string // the end of what it wrote, oldest first
	Asked     bool     // it was told to end by Stop
}

// Error is one message for the user: who ended, how, and its last words.
func (e Exit) Error() string {
	how := "ended"
	if e.Err != nil {
		how = "ended: " + e.Err.Error()
	}
	text := fmt.Sprintf("worker %s (pid %d) %s", e.ID, e.PID, how)
	if len(e.LastLines) > 0 {
		text += "; its last lines:\n  " + strings.Join(e.LastLines, "\n  ")
	}
	return text
}

// Group is a set of running child processes.
type Group struct {
	exits     chan Exit
	done      chan struct{} // closed when all have ended and are reaped
	keepalive *os.File      // write end of the pipe; the children see its end as ours

	mu       sync.Mutex
	stopping bool
	running  map[string]*exec.Cmd
}

// lastLines is how many lines of a child are kept for its Exit.
const lastLines = 20

// outputGrace is how long Wait waits for the output of an ended child (something that it started may hold the pipe open). Its last words are in
// the pipe by then, but on a busy machine, or with a slow log, it takes a while until they are read.
const outputGrace = 10 * time.Second

// Start starts all processes, or none: if one can't be started the others are stopped. When ctx ends the children are told to
// end as by Stop(DefaultStopTimeout). The caller calls Stop in any case.
func Start(ctx context.Context, s Spec) (*Group, error) {
	binary := s.Binary
	if binary == "" {
		var err error
		if binary, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find this executable: %w", err)
		}
	}
	seen := map[string]bool{}
	for _, w := range s.Workers {
		if seen[w.ID] {
			return nil, fmt.Errorf("worker id %q is given twice", w.ID)
		}
		seen[w.ID] = true
	}
	childEnd, ourEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe to workers: %w", err)
	}
	defer childEnd.Close()

	g := &Group{
		exits:     make(chan Exit, len(s.Workers)),
		done:      make(chan struct{}),
		keepalive: ourEnd,
		running:   map[string]*exec.Cmd{},
	}
	var logMutex sync.Mutex
	started := make(chan error, 1)
	go g.own(func() (reap []func()) {
		for _, w := range s.Workers {
			wait, err := g.startOne(binary, s, w, childEnd, &logMutex)
			if err != nil {
				started <- fmt.Errorf("start worker %s (%s): %w", w.ID, binary, err)
				return reap
			}
			reap = append(reap, wait)
		}
		started <- nil
		return reap
	})
	if err := <-started; err != nil {
		g.Stop(time.Second)
		return nil, err
	}
	go func() {
		select {
		case <-ctx.Done():
			g.Stop(DefaultStopTimeout)
		case <-g.done:
		}
	}()
	return g, nil
}

// startOne starts a process and returns what waits for its end. It runs on the thread that owns the children.
func (g *Group) startOne(binary string, s Spec, w Worker, pipe *os.File, logMutex *sync.Mutex) (wait func(), err error) {
	output := &lines{id: w.ID, to: s.Log, mutex: logMutex}
	cmd := exec.Command(binary, append(append([]string{}, s.Args...), w.Args...)...)
	cmd.Env = append(append(append(os.Environ(), s.Env...), w.Env...), fmt.Sprintf("%s=%d", ParentPipeEnv, parentPipeFD))
	cmd.ExtraFiles = []*os.File{pipe}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = attributes()
	cmd.WaitDelay = outputGrace
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.running[w.ID] = cmd
	g.mu.Unlock()
	return func() {
		err := cmd.Wait()
		if errors.Is(err, exec.ErrWaitDelay) {
			err = nil // the process ended well, only its output stayed open
		}
		output.flush()
		g.mu.Lock()
		delete(g.running, w.ID)
		asked := g.stopping
		g.mu.Unlock()
		g.exits <- Exit{ID: w.ID, PID: cmd.Process.Pid, Err: err, LastLines: output.last(), Asked: asked}
	}, nil
}

// Exits gives one Exit for each process that ended; it is closed after the last.
func (g *Group) Exits() <-chan Exit { return g.exits }

// PIDs gives the process ids of those that run, by worker id.
func (g *Group) PIDs() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	pids := make(map[string]int, len(g.running))
	for id, cmd := range g.running {
		pids[id] = cmd.Process.Pid
	}
	return pids
}

// Terminate asks all children to end (SIGTERM) and doesn't wait: Exits tells of each, Stop makes an end of those that take too long.
func (g *Group) Terminate() {
	g.mu.Lock()
	g.stopping = true
	g.mu.Unlock()
	g.each(terminate)
}

// DefaultStopTimeout is how long children may take to end before they are killed when ctx ends.
const DefaultStopTimeout = 1500 * time.Millisecond

// Stop asks all children to end (SIGTERM), kills those that still run after the timeout, and returns when all are reaped. It
// may be called again and from several goroutines.
func (g *Group) Stop(timeout time.Duration) {
	g.Terminate()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-g.done:
		return
	case <-timer.C:
	}
	g.each(func(p *os.Process) error { return p.Kill() })
	<-g.done
}

// each signals the processes that run. os.Process remembers that a process was reaped, so a stranger that got the same id is
// never touched.
func (g *Group) each(signal func(*os.Process) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, cmd := range g.running {
		_ = signal(cmd.Process) // the only error is that it has just ended
	}
}

// lines passes a child's output on, line by line, and remembers the end of it.
type lines struct {
	id    string
	to    io.Writer
	mutex *sync.Mutex // of to, shared by the children

	mu     sync.Mutex
	rest   []byte
	recent []string
}

// longestLine cuts a line that never ends.
const longestLine = 64 << 10

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		n, line, _ := bufio.ScanLines(l.rest, len(l.rest) > longestLine)
		if n == 0 {
			return len(p), nil
		}
		l.line(string(line))
		l.rest = append(l.rest[:0], l.rest[n:]...)
	}
}

func (l *lines) line(text string) {
	l.recent = append(l.recent, text)
	if len(l.recent) > lastLines {
		l.recent = append(l.recent[:0], l.recent[len(l.recent)-lastLines:]...)
	}
	if l.to != nil {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		fmt.Fprintf(l.to, "[%s] %s\n", l.id, text)
	}
}

// flush ends a last line without newline.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.line(string(l.rest))
		l.rest = nil
	}
}

func (l *lines) last() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.recent...)
}
