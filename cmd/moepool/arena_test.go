//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/moepool/moepool/internal/smalldisk"
)

// A second start packs nothing and gives the same bits.
func TestSecondStartReusesArena(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := runJSON(t, "--arena-dir", dir, "--max-tokens", "8", demoPrompt)
	second := runJSON(t, "--arena-dir", dir, "--max-tokens", "8", demoPrompt)
	if !slices.Equal(first.Tokens, second.Tokens) {
		t.Errorf("tokens %v, then %v", first.Tokens, second.Tokens)
	}
	a, b := first.Workers[0].Arena, second.Workers[0].Arena
	if a.PackedBytes == 0 || b.PackedBytes != 0 || b.ReusedBytes != a.PackedBytes || b.Fallbacks != 0 {
		t.Errorf("first start %+v, second %+v", a, b)
	}
}

// Arenas of a truncated, a torn and a foreign file are rebuilt.
func TestDamagedArenaIsRebuilt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := runJSON(t, "--arena-dir", dir, "--max-tokens", "8", demoPrompt)
	files, err := arenaFiles(dir)
	if err != nil || len(files) != 5 {
		t.Fatalf("%d arena files (%v), want one for each of 5 layers", len(files), err)
	}
	truncate(t, files[0], 4096)
	scribble(t, files[1], 2<<20+100, 64) // inside the first slot
	truncate(t, files[2], 0)
	scribble(t, files[3], 0, 16) // the magic
	second := runJSON(t, "--arena-dir", dir, "--max-tokens", "8", demoPrompt)
	if !slices.Equal(first.Tokens, second.Tokens) {
		t.Errorf("tokens %v, after damage %v", first.Tokens, second.Tokens)
	}
	if a := second.Workers[0].Arena; a.PackedBytes == 0 || a.ReusedBytes == 0 {
		t.Errorf("after damage %+v", a)
	}
}

// A full disk costs anonymous memory, which is said, and nothing else.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := smalldisk.Mount(t, 2<<20)
	whole := runJSON(t, "--arena-dir", "none", "--max-tokens", "8", demoPrompt)
	p := startProcess(t, "run", "--json", "--arena-dir", dir, "--max-tokens", "8", demoPrompt)
	if code := p.await(t, waitLimit); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr.String())
	}
	var r runReport
	mustUnmarshal(t, p.stdout.String(), &r)
	if !slices.Equal(whole.Tokens, r.Tokens) {
		t.Errorf("tokens %v, on a full disk %v", whole.Tokens, r.Tokens)
	}
	if r.Workers[0].Arena.Fallbacks == 0 || len(r.Notes) == 0 {
		t.Errorf("arena %+v, notes %q", r.Workers[0].Arena, r.Notes)
	}
	if p.stderr.String() == "" {
		t.Error("nothing was said on stderr")
	}
}

func arenaFiles(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, _ := d.Info(); info.Size() > 1<<20 {
				files = append(files, path)
			}
		}
		return err
	})
	return files, err
}

func truncate(t testing.TB, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func scribble(t testing.TB, path string, offset int64, n int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xa5
	}
	if _, err := f.WriteAt(b, offset); err != nil {
		t.Fatal(err)
	}
}
