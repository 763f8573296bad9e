package transport

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// listenLane opens a worker's socket. It has an abstract name: nothing stays behind on disk, whatever ends the process. Such
// names have no permissions, so both sides check whose process the other one is.
func listenLane() (*net.UnixListener, string, error) {
	address := "@moepool-lane-" + rand.Text()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	return l, address, err
}

// dialLane connects to a worker's socket.
func dialLane(ctx context.Context, address string) (*net.UnixConn, error) {
	if !strings.HasPrefix(address, "@") || len(address) > 100 {
		return nil, fmt.Errorf("%q is no lane's address", address)
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// checkPeer refuses processes of other users.
func checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if controlErr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); controlErr != nil {
		return controlErr
	}
	if err != nil {
		return err
	}
	if own := os.Geteuid(); int64(peer.Uid) != int64(own) {
		return fmt.Errorf("the other process belongs to user %d, this one to %d", peer.Uid, own)
	}
	return nil
}

// laneHost names this machine since its last boot; host names may repeat.
func laneHost() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil && !errors.Is(err, os.ErrNotExist) { // many containers have none; the boot is random enough
		return "", err
	}
	sum := sha256.Sum256(append(boot, machine...))
	return hex.EncodeToString(sum[:16]), nil
}
