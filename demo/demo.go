// Package demo holds the small trained model that is part of the binary, so that the program shows what it does without a
// download. It owns the model's files and their copy in the user's cache; it must not know what a model folder means.
//
// The model (qwen3_moe, 2.5 million parameters, bfloat16) was trained on the King James Bible and six novels of Jane Austen; it
// continues such prose and is no assistant.
package demo

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
)

// Name is what the model is called in messages.
const Name = "qwen3moe-2m"

//go:embed qwen3moe-2m/config.json qwen3moe-2m/generation_config.json qwen3moe-2m/model.safetensors
//go:embed qwen3moe-2m/tokenizer.json qwen3moe-2m/tokenizer_config.json
var files embed.FS

// load reads the embedded files; names are without the folder.
var load = sync.OnceValues(func() (map[string][]byte, error) {
	folder, err := fs.Sub(files, Name)
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, err
	}
	contents := make(map[string][]byte, len(entries))
	for _, e := range entries {
		if contents[e.Name()], err = fs.ReadFile(folder, e.Name()); err != nil {
			return nil, err
		}
	}
	return contents, nil
})

// Dir gives a folder that holds the model, complete and undamaged. It is the user's cache folder; the model is unpacked there
// at the first call of the first process and checked byte by byte by the others, which may run at the same time. Where the
// cache cannot be written, it is a folder of this user in the system's temporary folder, and a warning says so.
func Dir(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err == nil {
		var dir string
		if dir, err = unpackBelow(ctx, filepath.Join(cache, "moepool")); err == nil {
			return dir, nil
		}
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	temporary, fallbackErr := ownFolder(filepath.Join(os.TempDir(), fmt.Sprintf("moepool-%d", os.Getuid())))
	if fallbackErr == nil {
		var dir string
		if dir, fallbackErr = unpackBelow(ctx, temporary); fallbackErr == nil {
			slog.Warn("the user's cache cannot be written; the demo model is in a temporary folder", "folder", dir, "reason", err)
			return dir, nil
		}
	}
	return "", fmt.Errorf("demo model: no folder to unpack it to: %w", errors.Join(err, fallbackErr))
}

// unpackBelow unpacks into a folder whose name comes from the contents, so that programs of different versions don't meet.
func unpackBelow(ctx context.Context, parent string) (string, error) {
	contents, err := load()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, "demo-"+digest(contents)[:12])
	return dir, unpack(ctx, dir, contents)
}

// digest names the contents.
func digest(contents map[string][]byte) string {
	h := sha256.New()
	for _, name := range sortedNames(contents) {
		fmt.Fprintf(h, "%s %d\n", name, len(contents[name]))
		h.Write(contents[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}
