// Package reservedport gives tests loopback addresses for servers that they start themselves, in other processes or
// more than once. It knows nothing about what listens there.
//
// The usual way, to listen on port 0 and close again, gives the port back to the kernel: until the server is up, and
// while it is being restarted, any other process's listener or outgoing connection may get it. So these ports lie
// outside the range from which the kernel chooses, and a test holds its port, against other tests that use this
// package in whatever process, until it ends.
package reservedport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
)

// Ports below lowest are left to services of the machine.
const lowest = 10240

// Address gives "127.0.0.1:port" with a TCP port on which nobody listens. No other test gets it before t has ended.
func Address(t testing.TB) string {
	t.Helper()
	end := ephemeral()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(end-lowest))
		// The UDP port of the same number is what holds the TCP port: the test's server needs the latter for itself.
		held, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			held.Close()
			continue
		}
		l.Close()
		t.Cleanup(func() { held.Close() })
		return address
	}
	t.Fatalf("no free port from %d to %d", lowest, end-1)
	return ""
}

// ephemeral gives the first port that the kernel may choose by itself (ip(7), ip_local_port_range).
func ephemeral() int {
	const linux = 32768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return linux
	}
	var first int
	if _, err := fmt.Sscan(string(text), &first); err != nil || first <= lowest {
		return linux
	}
	return first
}
