//go:build linux

package lowmemory_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/moepool/moepool/internal/lowmemory"
	"github.com/moepool/moepool/internal/ondisk"
)

// A file larger than the limit is read through it: page cache counts, and is given up.
func TestPageCacheCounts(t *testing.T) {
	t.Parallel()
	const limit = 16 << 20
	g := lowmemory.ForTest(t, limit)
	folder := ondisk.Folder(t)
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, make([]byte, 3*limit), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lowmemory.Forget(folder); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/cat", file)
	g.Wrap(cmd)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	u, err := g.Usage()
	if err != nil || u.OOMKills != 0 {
		t.Fatalf("%+v, %v", u, err)
	}
	if u.Peak != 0 && (u.Peak < limit/2 || u.Peak > limit) {
		t.Errorf("at most %d bytes were taken, with a limit of %d", u.Peak, limit)
	}
}

// A process that needs more memory of its own than the limit is killed, and that is counted.
func TestKillsAreCounted(t *testing.T) {
	t.Parallel()
	g := lowmemory.ForTest(t, 8<<20)
	cmd := exec.Command("/bin/sh", "-c", `x=0123456789abcdef; while :; do x=$x$x; done`)
	g.Wrap(cmd)
	if err := cmd.Run(); err == nil {
		t.Fatal("it was not killed")
	}
	if u, err := g.Usage(); err != nil || u.OOMKills == 0 {
		t.Errorf("%+v, %v", u, err)
	}
}
