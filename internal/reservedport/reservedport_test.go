package reservedport

import (
	"net"
	"testing"
)

// Tests that run at once get different ports, on which a server can be started and restarted.
func TestAddress(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 200 {
		address := Address(t)
		if seen[address] {
			t.Fatalf("%s twice", address)
		}
		seen[address] = true
		for range 2 {
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			if port := l.Addr().(*net.TCPAddr).Port; port < lowest || port >= ephemeral() {
				t.Errorf("port %d may be given to others by the kernel", port)
			}
			l.Close()
		}
	}
}

// A port is free again when its test has ended: another process's test may get it just then, but not one port after the other.
func TestAddressIsGivenBack(t *testing.T) {
	t.Parallel()
	var last error
	for range 20 {
		var address string
		t.Run("holder", func(t *testing.T) {
			address = Address(t)
			if held, err := net.ListenPacket("udp", address); err == nil {
				held.Close()
				t.Errorf("%s isn't held", address)
			}
		})
		held, err := net.ListenPacket("udp", address)
		if err == nil {
			held.Close()
			return
		}
		last = err
	}
	t.Fatal(last)
}
