package testbed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	natsPort    = ":4222"
	metricsPort = ":9464"
	raftPort    = ":7000"
	stopLimit   = 5 * time.Second
)

// patience is how long anything may take that comes for certain: many times what it takes where nothing else runs. Only a failure waits so long.
const patience = 3 * time.Minute

// Seat is where a worker belongs.
type Seat struct {
	ID   string
	Host string
	NATS string // address of the server, or of the proxy in front of it
}

// Cluster is a NATS server on h1, a coordinator there or a group of three on h1, h2 and h3, and workers.
type Cluster struct {
	Network      *Network
	NATS         *Process
	Coordinators map[string]*Process // by host
	Workers      map[string]*Process

	binary, dir, token string
}

// Options say what to start.
type Options struct {
	Network     *Network
	Binary      string // moepool
	NATSServer  string // nats-server
	Dir         string // for settings, caches and arenas; a folder for each host
	Seats       []Seat
	Group       bool     // three coordinators
	Coordinator []string // further arguments of coordinators
}

// StartCluster starts it and waits until it answers; the caller calls Stop in any case.
func StartCluster(o Options) (c *Cluster, err error) {
	c = &Cluster{Network: o.Network, Workers: map[string]*Process{}, Coordinators: map[string]*Process{}, binary: o.Binary, dir: o.Dir, token: filepath.Join(o.Dir, "token")}
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
	hosts := []string{"h1"}
	if o.Group {
		hosts = []string{"h1", "h2", "h3"}
		if out, err := c.command("h1", o.Binary, "coordinator", "certificates", c.certificates(), "--raft-peers", c.peers(hosts)).CombinedOutput(); err != nil {
			return c, fmt.Errorf("certificates: %w: %s", err, out)
		}
	}
	for _, host := range hosts {
		arguments := append([]string{
			o.Binary, "coordinator", "--nats", "nats://" + c.natsAddress(), "--token-file", c.token, "--workers", strconv.Itoa(len(o.Seats)),
			"--http", c.metricsAddress(host), "--coordinator-threads", "1",
		}, o.Coordinator...)
		if o.Group {
			file := filepath.Join(c.certificates(), host)
			arguments = append(arguments, "--raft-dir", filepath.Join(o.Dir, host, "raft"), "--raft-id", host, "--raft-peers", c.peers(hosts),
				"--raft-ca", filepath.Join(c.certificates(), "ca.pem"), "--raft-cert", file+".pem", "--raft-key", file+"-key.pem")
		}
		if c.Coordinators[host], err = c.start("coordinator on "+host, host, arguments...); err != nil {
			return c, err
		}
	}
	for _, s := range o.Seats {
		if err := c.Join(s); err != nil {
			return c, err
		}
	}
	return c, c.waitReady(patience)
}

func (c *Cluster) natsAddress() string { return c.Network.Address("h1") + natsPort }

// metricsAddress is where the coordinator of a host serves /metrics.
func (c *Cluster) metricsAddress(host string) string { return c.Network.Address(host) + metricsPort }

func (c *Cluster) certificates() string { return filepath.Join(c.dir, "certificates") }

// peers are the coordinators of these hosts, as --raft-peers wants them.
func (c *Cluster) peers(hosts []string) string {
	list := make([]string, len(hosts))
	for i, host := range hosts {
		list[i] = host + "=" + c.Network.Address(host) + raftPort
	}
	return strings.Join(list, ",")
}

// Leader is the host of the coordinator that follows the workers; "" if there is none.
func (c *Cluster) Leader() string {
	for host := range c.Coordinators {
		if leads(c.metricsAddress(host)) {
			return host
		}
	}
	return ""
}

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

// waitReady waits until a coordinator leads and all its workers are ready.
func (c *Cluster) waitReady(limit time.Duration) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if c.Leader() != "" {
			return nil
		}
	}
	return errors.New("no coordinator is ready: " + c.Logs())
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
	return run(n.Command("switch", binary, "run", "--json", "--quiet", "--arena-dir", "none", "--max-tokens", strconv.Itoa(tokens), Prompt), patience)
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
	for _, p := range c.Coordinators {
		all = append(all, p)
	}
	if c.NATS != nil {
		all = append(all, c.NATS)
	}
	return all
}

// Stop ends everything: the coordinators first, so that workers need not drain.
func (c *Cluster) Stop() {
	for _, p := range c.Coordinators {
		p.Stop(stopLimit)
	}
	for _, p := range c.Workers {
		p.Stop(stopLimit)
	}
	if c.NATS != nil {
		c.NATS.Stop(stopLimit)
	}
}
