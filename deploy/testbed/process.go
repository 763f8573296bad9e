package testbed

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// restartDelay is RestartSec of deploy/systemd's units.
const restartDelay = 500 * time.Millisecond

// Process is a program that is started again whenever it ends, until Stop, as systemd does it.
type Process struct {
	name    string
	command func() *exec.Cmd

	mu       sync.Mutex
	current  *exec.Cmd
	log      bytes.Buffer // of all its lives
	starts   int
	stopping bool
	paused   bool // ends are not followed by starts

	stop  chan struct{}
	ended chan struct{}
}

// StartProcess starts it.
func StartProcess(name string, command func() *exec.Cmd) (*Process, error) {
	p := &Process{name: name, command: command, stop: make(chan struct{}), ended: make(chan struct{})}
	c, err := p.begin()
	if err != nil {
		return nil, err
	}
	go p.supervise(c)
	return p, nil
}

func (p *Process) begin() (*exec.Cmd, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.command()
	c.Stdout, c.Stderr = lockedWriter{p}, lockedWriter{p}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	p.current = c
	p.starts++
	return c, nil
}

func (p *Process) supervise(c *exec.Cmd) {
	defer close(p.ended)
	for {
		_ = c.Wait() // how it ended is in its log
		for {
			select {
			case <-p.stop:
				return
			case <-time.After(restartDelay):
			}
			p.mu.Lock()
			paused := p.paused
			p.mu.Unlock()
			if !paused {
				break
			}
		}
		var err error
		if c, err = p.begin(); err != nil {
			fmt.Fprintln(lockedWriter{p}, err)
			return
		}
	}
}

// lockedWriter appends to the process's log.
type lockedWriter struct{ p *Process }

func (w lockedWriter) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.p.log.Write(b)
}

// Signal sends a signal to its present life.
func (p *Process) Signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.current.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// Pause keeps it down once it has ended; Resume lets it start again.
func (p *Process) Pause()  { p.setPaused(true) }
func (p *Process) Resume() { p.setPaused(false) }

func (p *Process) setPaused(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = paused
}

// Starts is how often it was started; Log is what it said.
func (p *Process) Starts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Stop ends it for good: SIGTERM, and SIGKILL after limit.
func (p *Process) Stop(limit time.Duration) {
	p.mu.Lock()
	stopping := p.stopping
	p.stopping = true
	p.mu.Unlock()
	if stopping {
		return
	}
	close(p.stop)
	_ = p.Signal(syscall.SIGCONT)
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(limit):
		_ = p.Signal(syscall.SIGKILL)
		<-p.ended
	}
}
