package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// sortedNames gives config.json last, so that a folder which lacks files doesn't look like a model yet.
func sortedNames(contents map[string][]byte) []string {
	names := slices.Sorted(maps.Keys(contents))
	if i := slices.Index(names, "config.json"); i >= 0 {
		names = append(slices.Delete(names, i, i+1), "config.json")
	}
	return names
}

// unpack makes every file of dir equal to contents. A file that is right already isn't touched. Each one is written under
// another name and renamed, so any number of processes may do this at once, and a reader sees a file whole or not at all.
func unpack(ctx context.Context, dir string, contents map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range sortedNames(contents) {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := filepath.Join(dir, name)
		if same(path, contents[name]) {
			continue
		}
		// A rename may fail where another process holds the file open (Windows); then that process wrote it.
		if err := replace(path, contents[name]); err != nil && !same(path, contents[name]) {
			return fmt.Errorf("unpack %s: %w", path, err)
		}
	}
	return nil
}

// same tells whether the file holds exactly these bytes.
func same(path string, content []byte) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(content)) {
		return false
	}
	found, err := os.ReadFile(path)
	return err == nil && bytes.Equal(found, content)
}

func replace(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
