//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/moepool/moepool/internal/lowmemory"
)

// host is where a worker runs, with the memory that it has.
type host struct {
	name   string                                 // of the worker
	limit  int64                                  // bytes of the memory group; 0: no group
	within func(argv []string) (wrapped []string) // puts a command line on the host; nil: this one
}

// cluster is a coordinator and a worker on each host.
type cluster struct {
	b           *bench
	url, token  string
	client      func(argv []string) []string
	coordinator *process
	workers     []*process
	groups      []*lowmemory.Group
}

// clusterOptions say what to start.
type clusterOptions struct {
	hosts       []host
	listen      string                       // address of the coordinator; "": a free port of this host
	front       func(argv []string) []string // puts coordinator and clients on a host; nil: this one
	coordinator []string                     // more arguments
	worker      []string
	arena       string // "": the bench's
	keepCache   bool   // the page cache is left as it is; else the packed experts are cold
}

// start starts a cluster and waits until it serves. The caller calls stop.
func (b *bench) start(ctx context.Context, o clusterOptions) (c *cluster, err error) {
	c = &cluster{b: b, token: filepath.Join(b.work, "token"), client: o.front}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	if o.arena == "" {
		o.arena = b.arena
	}
	if !o.keepCache {
		if err := lowmemory.Forget(o.arena); err != nil {
			return c, err
		}
	}
	if err := os.WriteFile(c.token, []byte("measured\n"), 0o600); err != nil {
		return c, err
	}
	if o.listen == "" {
		if o.listen, err = freeAddress(); err != nil {
			return c, err
		}
	}
	c.url = "nats://" + o.listen
	argv := append([]string{b.moepool, "coordinator", "--model", b.model, "--listen", o.listen, "--token-file", c.token, "--workers",
		strconv.Itoa(len(o.hosts)), "--http", "none", "--lane", "local", "--json"}, o.coordinator...)
	if c.coordinator, err = startProcess(ctx, place(o.front, argv), nil); err != nil {
		return c, err
	}
	for _, h := range o.hosts {
		argv := append([]string{b.moepool, "worker", "--model", b.model, "--nats", c.url, "--token-file", c.token, "--id", h.name, "--node", "0",
			"--arena-dir", o.arena, "--lane", "local"}, append(o.worker, b.worker...)...)
		var g *lowmemory.Group
		if h.limit > 0 {
			if g, err = lowmemory.New(h.limit); err != nil {
				return c, err
			}
			c.groups = append(c.groups, g)
		}
		p, err := startProcess(ctx, place(h.within, argv), g)
		if err != nil {
			return c, err
		}
		c.workers = append(c.workers, p)
	}
	return c, c.coordinator.await(5*time.Minute, c.workers)
}

func place(on func([]string) []string, argv []string) []string {
	if on == nil {
		return argv
	}
	return on(argv)
}

// answer is what `run --json` prints, as far as it is used.
type answer struct {
	Tokens  []int32
	Timings struct {
		Prefill float64 `json:"prefill_s"`
		Decode  float64 `json:"decode_s"`
		Speed   float64 `json:"tokens_per_s"`
	}
	Budget struct {
		Dropped      int     `json:"dropped_experts"`
		Filled       int     `json:"filled"`
		Mass         float64 `json:"dropped_mass_mean"`
		BytesNotRead *int64  `json:"bytes_not_read"`
	}
	Experts struct {
		Hits   int
		Misses int
	}
	Read   int64 `json:"-"` // bytes that the workers' processes had read from block devices meanwhile, by /proc
	Faults int64 `json:"-"` // their major faults
}

// ask has a client ask the cluster.
func (c *cluster) ask(ctx context.Context, promptTokens string, tokens int, seed uint64, budget string) (*answer, error) {
	before, err := c.counted()
	if err != nil {
		return nil, err
	}
	argv := place(c.client, []string{c.b.moepool, "run", "--nats", c.url, "--token-file", c.token, "--json", "--ignore-eos", "--temperature", "1",
		"--seed", fmt.Sprint(seed), "--max-tokens", fmt.Sprint(tokens), "--expert-budget", budget, "--prompt-tokens", promptTokens})
	out, err := output(ctx, argv[0], argv[1:]...)
	if err != nil {
		return nil, errors.Join(err, c.alive())
	}
	a := &answer{}
	if err := json.Unmarshal(out, a); err != nil {
		return nil, err
	}
	after, err := c.counted()
	if err != nil {
		return nil, err
	}
	a.Read, a.Faults = after.read-before.read, after.faults-before.faults
	return a, nil
}

// process is a program that runs until it is stopped.
type process struct {
	cmd   *exec.Cmd
	out   lockedBuffer
	ended chan struct{}
}

func startProcess(ctx context.Context, argv []string, g *lowmemory.Group) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 5 * time.Second
	if g != nil {
		g.Wrap(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// await waits until a coordinator says that it serves.
func (p *process) await(limit time.Duration, others []*process) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(p.out.String(), "}\n") {
			return nil
		}
		for _, q := range append(others, p) {
			select {
			case <-q.ended:
				return fmt.Errorf("%s ended: %s", q.cmd, q.out.String())
			default:
			}
		}
	}
	return fmt.Errorf("%s is not ready after %v: %s", p.cmd, limit, p.out.String())
}

func (p *process) stop() {
	if p == nil {
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(3 * time.Second):
		p.cmd.Process.Kill()
		<-p.ended
	}
}

// alive names a worker that has ended.
func (c *cluster) alive() error {
	for _, w := range c.workers {
		select {
		case <-w.ended:
			return fmt.Errorf("%s ended: %s", w.cmd, w.out.String())
		default:
		}
	}
	return nil
}

// stop ends the coordinator first, so that workers need not drain. It gives the number of processes that the kernel killed.
func (c *cluster) stop() (killed int, peak int64) {
	c.coordinator.stop()
	for _, w := range c.workers {
		if w != nil { // twice: the second signal says not to drain
			w.cmd.Process.Signal(syscall.SIGTERM)
		}
		w.stop()
	}
	for _, g := range c.groups {
		if u, err := g.Usage(); err == nil {
			killed, peak = killed+u.OOMKills, max(peak, u.Peak)
		}
		if err := g.Close(); err != nil {
			say("%v", err)
		}
	}
	return killed, peak
}

// counts are what /proc says of the workers together.
type counts struct{ read, faults, anonymous int64 }

func (c *cluster) counted() (sum counts, err error) {
	for _, w := range c.workers {
		one, err := readCounts(w.cmd.Process.Pid)
		if err != nil {
			return sum, errors.Join(err, c.alive())
		}
		sum.read, sum.faults, sum.anonymous = sum.read+one.read, sum.faults+one.faults, sum.anonymous+one.anonymous
	}
	return sum, nil
}

// readCounts reads /proc/PID/io, stat and status.
func readCounts(pid int) (c counts, err error) {
	folder := fmt.Sprintf("/proc/%d/", pid)
	for name, fields := range map[string]map[string]*int64{"io": {"read_bytes:": &c.read}, "status": {"RssAnon:": &c.anonymous}} {
		text, err := os.ReadFile(folder + name)
		if err != nil {
			return c, err
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) > 1 && fields[words[0]] != nil {
				if *fields[words[0]], err = strconv.ParseInt(words[1], 10, 64); err != nil {
					return c, fmt.Errorf("%s%s: %w", folder, name, err)
				}
			}
		}
	}
	c.anonymous <<= 10
	stat, err := os.ReadFile(folder + "stat")
	if err != nil {
		return c, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	if words := strings.Fields(rest); len(words) > 9 {
		c.faults, err = strconv.ParseInt(words[9], 10, 64) // majflt, the 12th field
	}
	return c, err
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
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
