package testbed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// blockLimit is for one block of the guide: some compile programs first.
const blockLimit = 10 * time.Minute

// copier stands in for scp between the hosts' folders: scp [-r] FILE... HOST:[DIR].
const copier = `#!/bin/bash
set -eu
to=${@: -1}
cp "${@:1:$#-1}" "$TESTBED_HOMES/${to%%:*}/${to#*:}"
`

// Each command of docs/multi-host.md, on the host and in the order that it says.
func TestGuide(t *testing.T) {
	network, binary, natsServer, ok := Here()
	if !ok {
		if os.Getenv("CI") == "true" {
			t.Fatal("no testbed: .ci/testbed makes one")
		}
		t.Skip("SKIPPED: no testbed here; as root, .ci/testbed makes one and runs these tests")
	}
	repository := filepath.Dir(filepath.Dir(filepath.Dir(network.Script)))
	blocks, err := Guide(filepath.Join(repository, "docs", "multi-host.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(blocks) < 10 {
		t.Fatalf("%d blocks in the guide", len(blocks))
	}
	homes := t.TempDir()
	bin := filepath.Join(homes, "bin")
	for _, host := range []string{"bin", "h1", "h2", "h3", "h4"} {
		if err := os.Mkdir(filepath.Join(homes, host), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"moepool": binary, "nats-server": natsServer} {
		if err := os.Symlink(target, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "scp"), []byte(copier), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(repository, filepath.Join(homes, "h1", "moepool")); err != nil {
		t.Fatal(err)
	}
	defer endAll(t, homes)
	for _, b := range blocks {
		begin := time.Now()
		out, err := b.run(network, homes, bin)
		if err != nil {
			t.Fatalf("docs/multi-host.md:%d on %s: %v\n%s\n%s%s", b.Line, b.Host, err, b.Script, out, logs(homes))
		}
		t.Logf("line %d on %s, %.1f s: %s", b.Line, b.Host, time.Since(begin).Seconds(), strings.TrimSpace(out))
	}
}

func (b *Block) run(network *Network, homes, bin string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), blockLimit)
	defer cancel()
	prepared := network.Command(b.Host, "bash", "-euo", "pipefail", "-c", b.Script)
	cmd := exec.CommandContext(ctx, prepared.Path, prepared.Args[1:]...)
	home := filepath.Join(homes, b.Host)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, ".cache"), "PATH="+bin+":"+os.Getenv("PATH"), "TESTBED_HOMES="+homes)
	cmd.WaitDelay = time.Second // what runs on in the background has files of its own
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// endAll ends what the guide left running, the processes whose ids it wrote down, and waits for their end: until then they write into their folders.
func endAll(t *testing.T, homes string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(homes, "*", "*.pid"))
	if err != nil {
		t.Error(err)
	}
	var running []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		id, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		running = append(running, id)
	}
	for _, end := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{{syscall.SIGTERM, stopLimit}, {syscall.SIGKILL, patience}} {
		for _, id := range running {
			_ = syscall.Kill(id, end.signal) // it may have ended
		}
		for deadline := time.Now().Add(end.limit); len(running) > 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			running = slices.DeleteFunc(running, ended)
		}
	}
	if len(running) > 0 {
		t.Errorf("processes %v of the guide don't end", running)
	}
}

// ended says whether a process has ended, though nobody may have asked for its exit code yet.
func ended(id int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ") // PID (NAME) STATE ...
	return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}

func logs(homes string) (text string) {
	files, _ := filepath.Glob(filepath.Join(homes, "*", "*.log")) // the pattern is right
	for _, file := range files {
		content, err := os.ReadFile(file)
		text += fmt.Sprintf("\n--- %s %v\n%s", strings.TrimPrefix(file, homes+"/"), err, content)
	}
	return text
}
