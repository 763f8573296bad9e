//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestChat talks on a pseudo terminal: two turns, Ctrl-C during an answer, and leaving.
func TestChat(t *testing.T) {
	t.Parallel()
	master, slave := openTerminal(t)
	p := newProcess(t, "run", "--model", longModel(t), "--arena-dir", "none", "--ignore-eos", "--max-tokens", "4000")
	p.Stdin = slave
	out := &p.stdout
	p.Cmd.Stderr = out // one pipe, so that what comes in order is seen in order
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.start(t)
	p.awaitOutput(t, out, chatHelp)
	write := func(text string) {
		if _, err := master.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	answer := func(text, what string) {
		before := len(out.String())
		write(text)
		waitFor(t, waitLimit, func() (bool, string) { return len(out.String()) > before+20, what + "; output: " + out.String() })
	}
	answer("hello\r", "an answer")
	signalProcess(t, p.Process.Pid, syscall.SIGINT)
	write("/help\r") // is read when the answer has ended, and is the last thing to be said before the next one
	waitFor(t, waitLimit, func() (bool, string) {
		return strings.Count(out.String(), chatHelp) == 2, "the end of the answer; output: " + out.String()
	})
	answer("/reset\ragain\r", "an answer after Ctrl-C")
	signalProcess(t, p.Process.Pid, syscall.SIGINT)
	write("/exit\r")
	if code := p.await(t, waitLimit); code != 0 {
		t.Errorf("exit code %d; output: %s", code, out.String())
	}
	if strings.Contains(out.String(), "error:") {
		t.Errorf("output: %s", out.String())
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
