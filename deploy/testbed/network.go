package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Network is a set of hosts that `hosts up` made.
type Network struct {
	Script string // path of `hosts`
	Hosts  int    // h1 … hN
}

// Address is a host's, without port.
func (n *Network) Address(host string) string {
	if host == "switch" {
		return "10.89.0.254"
	}
	return "10.89.0." + strings.TrimPrefix(host, "h")
}

// Command prepares a command on a host. Its process is the program itself: signals reach it.
func (n *Network) Command(host string, argv ...string) *exec.Cmd {
	return exec.Command(n.Script, append([]string{"exec", host}, argv...)...)
}

// Cut takes a host's link down, Heal brings it back.
func (n *Network) Cut(host string) error  { return n.call("cut", host) }
func (n *Network) Heal(host string) error { return n.call("heal", host) }

func (n *Network) call(args ...string) error {
	if out, err := exec.Command(n.Script, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", n.Script, strings.Join(args, " "), err, out)
	}
	return nil
}

// Bytes are those that a host has received and sent since it was made.
func (n *Network) Bytes(host string) (received, sent int64, err error) {
	out, err := exec.Command(n.Script, "bytes", host).Output()
	if err != nil {
		return 0, 0, fmt.Errorf("%s bytes %s: %w", n.Script, host, err)
	}
	fields := strings.Fields(string(out))
	if len(fields) != 2 {
		return 0, 0, fmt.Errorf("%s bytes %s: %q", n.Script, host, out)
	}
	if received, err = strconv.ParseInt(fields[0], 10, 64); err != nil {
		return 0, 0, err
	}
	sent, err = strconv.ParseInt(fields[1], 10, 64)
	return received, sent, err
}

// Here is the network that .ci/testbed made; ok is false where there is none.
func Here() (n *Network, binary, natsServer string, ok bool) {
	hosts, err := strconv.Atoi(os.Getenv("TESTBED_HOSTS"))
	script, binary, natsServer := os.Getenv("TESTBED_SCRIPT"), os.Getenv("TESTBED_MOEPOOL"), os.Getenv("TESTBED_NATS_SERVER")
	if err != nil || hosts < 4 || script == "" || binary == "" || natsServer == "" {
		return nil, "", "", false
	}
	return &Network{Script: script, Hosts: hosts}, binary, natsServer, true
}
