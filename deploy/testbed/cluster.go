package testbed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const (
	natsPort    = ":4222"
	metricsPort = ":9464"
	stopLimit   = 5 * time.Second
)

// Seat is where a worker belongs.
type Seat struct {
	ID   string
	Host string
	NATS string // address of the server, or of the proxy in front of it
}

// Cluster is a NATS server and a coordinator on h1, and workers.
type Cluster struct {
	Network     *Network
	NATS        *Process
	Coordinator *Process
	Workers     map[string]*Process

	binary, dir, token string
}

// Options say what to start.
type Options struct {
	Network     *Network
	Binary      string // moepool
	NATSServer  string // nats-server
	Dir         string // for settings, caches and arenas; a folder for each host
	Seats       []Seat
	Coordinator []string // further arguments of the coordinator
}

// StartCluster starts it and waits until it answers; the caller calls Stop in any case.
func StartCluster(o Options) (c *Cluster, err error) {
	c = &Cluster{Network: o.Network, Workers: map[string]*Process{}, binary: o.Binary, dir: o.Dir, token: filepath.Join(o.Dir, "token")}
	if err := os.WriteFile(c.token, []byte("testbed-secret\n"), 0o600); err != nil {
		return c, err
	}
	settings := filepath.Join(o.Dir, "nats.conf")
	text := fmt.Sprintf("listen: %s%s\nmax_payload: 8MB\nauthorization { token: testbed-secret }\n", o.Network.Address("h1"), natsPort)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		return c, err
	}
	if c.NATS, err = c.start("nats", "h1", o.NATSServer, "--config", settings); err != nil {
		return c, err
	}
	arguments := append([]string{
		"coordinator", "--nats", "nats://" + c.natsAddress(), "--token-file", c.token, "--workers", strconv.Itoa(len(o.Seats)),
		"--http", o.Network.Address("h1") + metricsPort, "--coordinator-threads", "1",
	}, o.Coordinator...)
	if c.Coordinator, err = c.start("coordinator", "h1", append([]string{o.Binary}, arguments...)...); err != nil {
		return c, err
	}
	for _, s := range o.Seats {
		if err := c.Join(s); err != nil {
			return c, err
		}
	}
	return c, c.waitReady(30 * time.Second)
}

func (c *Cluster) natsAddress() string { return c.Network.Address("h1") + natsPort }

// MetricsAddress is where the coordinator serves /metrics.
func (c *Cluster) MetricsAddress() string { return c.Network.Address("h1") + metricsPort }

// Join starts a worker.
func (c *Cluster) Join(s Seat) error {
	if s.NATS == "" {
		s.NATS = c.natsAddress()
	}
	p, err := c.start(s.ID, s.Host, c.binary, "worker", "--nats", "nats://"+s.NATS, "--token-file", c.token, "--id", s.ID, "--node", "0", "--threads", "1",
		"--arena-dir", filepath.Join(c.dir, s.Host, "arena"))
	if err == nil {
		c.Workers[s.ID] = p
	}
	return err
}

func (c *Cluster) start(name, host string, argv ...string) (*Process, error) {
	return StartProcess(name, func() *exec.Cmd { return c.command(host, argv...) })
}

// command is one on a host with a cache folder of its own.
func (c *Cluster) command(host string, argv ...string) *exec.Cmd {
	cmd := c.Network.Command(host, argv...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(c.dir, host))
	return cmd
}

// waitReady waits until the coordinator says at /readyz that all workers are ready.
func (c *Cluster) waitReady(limit time.Duration) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if ready(c.MetricsAddress()) {
			return nil
		}
	}
	return errors.New("the coordinator is not ready: " + c.Logs())
}

// Answer is what `moepool run --json` prints, as far as it is compared.
type Answer struct {
	Tokens []int32 `json:"tokens"`
	Text   string  `json:"text"`
	Finish string  `json:"finish_reason"`
	Error  string  `json:"error"`

	Took    time.Duration `json:"-"`
	Silence time.Duration `json:"-"` // the longest between two pieces of text, of a streamed answer
}

// Prompt is what all tests ask.
const Prompt = "And it came to pass in those days, that"

// Ask runs a client on a host and gives the tokens.
func (c *Cluster) Ask(host string, tokens int, limit time.Duration) (*Answer, error) {
	return run(c.client(host, tokens, "--json"), limit)
}

// Stream runs a client on a host and gives the text and how long it stood still.
func (c *Cluster) Stream(host string, tokens int, limit time.Duration) (*Answer, error) {
	return stream(c.client(host, tokens, "--quiet"), limit)
}

func (c *Cluster) client(host string, tokens int, form string) *exec.Cmd {
	return c.command(host, c.binary, "run", "--nats", "nats://"+c.natsAddress(), "--token-file", c.token,
		form, "--max-tokens", strconv.Itoa(tokens), Prompt)
}

// Undisturbed is the answer of `moepool run`, all on one host.
func Undisturbed(n *Network, binary string, tokens int) (*Answer, error) {
	return run(n.Command("switch", binary, "run", "--json", "--quiet", "--arena-dir", "none", "--max-tokens", strconv.Itoa(tokens), Prompt), time.Minute)
}

// Logs are what all processes said.
func (c *Cluster) Logs() string {
	text := ""
	for _, p := range c.processes() {
		text += fmt.Sprintf("\n--- %s, started %d times\n%s", p.name, p.Starts(), p.Log())
	}
	return text
}

func (c *Cluster) processes() (all []*Process) {
	for _, p := range c.Workers {
		all = append(all, p)
	}
	for _, p := range []*Process{c.Coordinator, c.NATS} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// Stop ends everything: the coordinator first, so that workers need not drain.
func (c *Cluster) Stop() {
	if c.Coordinator != nil {
		c.Coordinator.Stop(stopLimit)
	}
	for _, p := range c.Workers {
		p.Stop(stopLimit)
	}
	if c.NATS != nil {
		c.NATS.Stop(stopLimit)
	}
}
