//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// bench is a model that is ready to be measured.
type bench struct {
	options
	model, arena string
	experts      int64  // packed bytes of all experts
	worker0      string // the worker's name on this host, which its folder of packed experts is named by
}

const vocabulary = 8192

// prepare makes the model and packs it, unless the folder has it already.
func prepare(ctx context.Context, o options) (*bench, error) {
	name := fmt.Sprintf("layers%d-skew%g", o.layers, o.skew)
	b := &bench{options: o, model: filepath.Join(o.work, name), arena: filepath.Join(o.work, name+"-arena")}
	if _, err := os.Stat(filepath.Join(b.model, "config.json")); errors.Is(err, os.ErrNotExist) {
		say("%s: making a model of %d layers", b.model, o.layers)
		// Weights that keep activations near 1: else attention makes all tokens of a text alike, and they route alike.
		_, err := output(ctx, o.moepool, "synth", b.model, "--like", "qwen3-30b-a3b", "--layers", fmt.Sprint(o.layers),
			"--vocabulary", fmt.Sprint(vocabulary), "--router-skew", fmt.Sprint(o.skew), "--deviation", "0", "--json")
		if err != nil {
			return nil, err
		}
	}
	if _, err := output(ctx, o.moepool, "pack", "--model", b.model, "--arena-dir", b.arena, "--json"); err != nil {
		return nil, err
	}
	files, err := arenaFiles(b.arena)
	if err != nil {
		return nil, err
	}
	b.worker0 = filepath.Base(filepath.Dir(files[0]))
	for _, f := range files {
		var s unix.Stat_t
		if err := unix.Stat(f, &s); err != nil {
			return nil, err
		}
		b.experts += s.Blocks * 512
	}
	say("%d layers of 128 experts, %s packed in q8; %d tokens an answer, medians of %d", o.layers, gigabytes(b.experts), o.tokens, o.rounds)
	return b, nil
}

// arenaFiles lists the files that hold experts.
func arenaFiles(folder string) (files []string, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > 16<<20 {
			files = append(files, path)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s holds no packed experts", folder)
	}
	return files, err
}

// prompt gives token ids that are the same each time.
func prompt(seed uint64, n int) string {
	random := rand.New(rand.NewPCG(seed, 0))
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(random.IntN(256)) // byte tokens, which every vocabulary of synth has
	}
	return strings.Join(ids, ",")
}

// output runs a command and gives what it printed; its errors hold the end of what it said.
func output(ctx context.Context, name string, arguments ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, arguments...).Output()
	if err != nil {
		said := ""
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			said = strings.TrimSpace(string(exit.Stderr))
		}
		return nil, fmt.Errorf("%s %s: %w: %s", filepath.Base(name), arguments[0], err, said[max(0, len(said)-500):])
	}
	return out, nil
}

func say(format string, a ...any) { fmt.Fprintf(os.Stderr, format+"\n", a...) }

func gigabytes(n int64) string { return fmt.Sprintf("%.2f GB", float64(n)/1e9) }
