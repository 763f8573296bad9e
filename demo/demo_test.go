package demo

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/moepool/moepool/checkpoint"
)

// cacheIn makes dir the user's cache folder for one test.
func cacheIn(t *testing.T, dir string) {
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("HOME", dir)
	t.Setenv("LocalAppData", dir)
}

func mustDir(t *testing.T) string {
	t.Helper()
	dir, err := Dir(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkWhole compares the folder with the embedded files: all there, nothing else.
func checkWhole(t *testing.T, dir string) {
	t.Helper()
	contents, err := load()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(contents) {
		t.Errorf("%d files, expected %d: %v", len(entries), len(contents), entries)
	}
	for name, content := range contents {
		if found, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(found, content) {
			t.Errorf("%s differs from the embedded file (%v)", name, err)
		}
	}
}

func TestUnpacksIntoTheCacheOnce(t *testing.T) {
	cache := t.TempDir()
	cacheIn(t, cache)
	dir := mustDir(t)
	if !strings.HasPrefix(dir, cache) {
		t.Errorf("%s is not in the cache %s", dir, cache)
	}
	checkWhole(t, dir)
	before, err := os.Stat(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if again := mustDir(t); again != dir {
		t.Errorf("%s, then %s", dir, again)
	}
	if after, err := os.Stat(filepath.Join(dir, "model.safetensors")); err != nil || !os.SameFile(before, after) {
		t.Errorf("an undamaged file was written again (%v)", err)
	}
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if config := c.Config(); config.Family != "qwen3_moe" || config.Experts != 16 || config.TopK != 4 || len(config.Layers) != 5 {
		t.Errorf("%+v", config)
	}
}

func TestMendsADamagedCopy(t *testing.T) {
	cacheIn(t, t.TempDir())
	dir := mustDir(t)
	weights := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1 // the size stays
	for path, content := range map[string][]byte{weights: data, filepath.Join(dir, "config.json"): []byte("{")} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	checkWhole(t, mustDir(t))
}

func TestConcurrentStarts(t *testing.T) {
	cacheIn(t, t.TempDir())
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			dir, err := Dir(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			c, err := checkpoint.Open(dir)
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	group.Wait()
	checkWhole(t, mustDir(t))
}

func TestFallsBackToATemporaryFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the temporary folder is chosen by other variables on Windows")
	}
	blocked := filepath.Join(t.TempDir(), "file") // a cache below a file can't be made, not even by root
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cacheIn(t, blocked)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var log bytes.Buffer
	previous := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(previous)

	dir := mustDir(t)
	if !strings.HasPrefix(dir, temporary) || strings.Count(log.String(), "temporary folder") != 1 {
		t.Errorf("folder %s, log %q", dir, log.String())
	}
	checkWhole(t, dir)

	parent := filepath.Dir(dir)
	if err := os.Chmod(parent, 0o777); err != nil {
		t.Fatal(err)
	}
	if dir, err := Dir(context.Background()); err == nil {
		t.Errorf("a folder that everyone can write was used: %s", dir)
	}
}

func TestEndsWithItsContext(t *testing.T) {
	cacheIn(t, t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Dir(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
