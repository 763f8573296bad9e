package arena

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// holdFolder is the other process of TestLock: it holds the folder until its stdin ends.
func holdFolder(dir string) error {
	s, err := OpenStore(Options{Dir: dir})
	if err != nil {
		return err
	}
	fmt.Println("held")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return s.Close()
}

// TestUnlockedAtOnce: a folder is free when its store is closed, even while a process is being started: until its exec a child has the
// descriptors of its parent, and with them the lock.
func TestUnlockedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := OpenStore(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	child, err := unix.FcntlInt(uintptr(s.lock.(realFile)), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s := openStore(t, Options{Dir: dir}); s.Dir() != dir {
		t.Errorf("folder %q", s.Dir())
	}
}

// Not parallel, like all tests here that start processes: between fork and exec a child holds the locks of others' folders.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "ARENA_TEST_ROLE=hold", "ARENA_TEST_DIR="+dir)
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { // killed: the lock must not outlive its holder
		_ = other.Process.Kill()
		_ = other.Wait()
		s := openStore(t, Options{Dir: dir})
		if s.Dir() != dir {
			t.Errorf("folder %q after the holder's death", s.Dir())
		}
		if pid, err := os.ReadFile(filepath.Join(dir, lockName)); err != nil || string(pid) != strconv.Itoa(os.Getpid())+"\n" {
			t.Errorf("lock file %q, %v", pid, err)
		}
		_, err := OpenStore(Options{Dir: dir})
		if !errors.Is(err, ErrLocked) {
			t.Errorf("the same process twice: %v", err)
		}
	}()
	defer stdin.Close()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the other process: %q, %v", line, err)
	}
	_, err = OpenStore(Options{Dir: dir})
	var locked *LockedError
	if !errors.Is(err, ErrLocked) || !errors.As(err, &locked) || locked.PID != other.Process.Pid || locked.Dir != dir ||
		!strings.Contains(err.Error(), fmt.Sprintf("%s is in use by process %d", dir, locked.PID)) {
		t.Errorf("a folder that process %d holds: %v", other.Process.Pid, err)
	}
}
