//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestChat talks on a pseudo terminal: two turns, Ctrl-C during an answer, and leaving.
func TestChat(t *testing.T) {
	t.Parallel()
	master, slave := openTerminal(t)
	p := newProcess(t, "run", "--model", longModel(t), "--arena-dir", "none", "--ignore-eos", "--max-tokens", "4000")
	p.Stdin = slave
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.start(t)
	p.awaitOutput(t, &p.stderr, "Ctrl-C")
	write := func(text string) {
		if _, err := master.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("hello\r")
	waitFor(t, waitLimit, func() (bool, string) { return len(p.stdout.String()) > 20, "an answer; stderr: " + p.stderr.String() })
	signalProcess(t, p.Process.Pid, syscall.SIGINT)
	time.Sleep(100 * time.Millisecond)
	length := len(p.stdout.String())
	write("/reset\ragain\r")
	waitFor(t, waitLimit, func() (bool, string) {
		return len(p.stdout.String()) > length+20, "an answer after Ctrl-C; stderr: " + p.stderr.String()
	})
	signalProcess(t, p.Process.Pid, syscall.SIGINT)
	write("/exit\r")
	if code := p.await(t, 20*time.Second); code != 0 {
		t.Errorf("exit code %d; stderr: %s", code, p.stderr.String())
	}
	if strings.Contains(p.stderr.String(), "error:") {
		t.Errorf("stderr: %s", p.stderr.String())
	}
}

// openTerminal gives the two ends of a pseudo terminal.
func openTerminal(t testing.TB) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	go func() { // what the program echoes must be read, or it stops
		buffer := make([]byte, 4096)
		for {
			if _, err := master.Read(buffer); err != nil {
				return
			}
		}
	}()
	return master, slave
}
