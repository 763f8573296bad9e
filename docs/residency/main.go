//go:build linux

// Command residency measures moepool with a model larger than memory and prints the tables of docs/residency.md:
//
//	go run ./docs/residency --work FOLDER      (root; FOLDER on a disk, with room for --layers × 2 GB)
//
// It makes a random model whose router is skewed, packs it, and runs coordinator and workers with the workers in a memory group (of
// control groups version 1 or 2) of a third of the experts' bytes. It owns how the program is called and how its figures are read
// from its JSON and from /proc; it knows nothing of moepool's packages.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moepool/moepool/docs/internal/machine"
)

// options are the flags, checked.
type options struct {
	work, moepool string
	layers        int
	skew          float64
	tokens        int
	rounds        int
	tables        []string
	budgets       []string
	worker        []string // more arguments for every worker
}

// tables are what can be measured, in the order in which all are.
var tables = []struct {
	name, what string
	print      func(context.Context, *bench, io.Writer) error
}{
	{"limit", "the same bits, memory and speed: room for all, the kernel's reclaim, a limit", printLimits},
	{"budget", "expert budgets at a third of the memory", printBudgets},
	{"cold", "a first pass with cold and warm memory, and the disk", printCold},
	{"hosts", "two hosts of half the memory against one", printHosts},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "residency:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o options
	var names []string
	usage := "tables to measure, comma-separated:"
	for _, t := range tables {
		names = append(names, t.name)
		usage += " " + t.name + " (" + t.what + ")"
	}
	var chosen, workerArguments, budgetList string
	flag.StringVar(&o.work, "work", "", "folder for the model and its packed experts; a model that is there is used again")
	flag.StringVar(&o.moepool, "moepool", "", "binary (default: built now)")
	flag.IntVar(&o.layers, "layers", 3, "layers of 128 experts, 0.6 GB each in q8, and 1.2 GB for the checkpoint")
	flag.Float64Var(&o.skew, "skew", 0.05, "synth --router-skew")
	flag.IntVar(&o.tokens, "tokens", 64, "tokens of an answer")
	flag.IntVar(&o.rounds, "rounds", 3, "answers, of which medians are taken")
	flag.StringVar(&chosen, "tables", strings.Join(names, ","), usage)
	flag.StringVar(&budgetList, "budgets", strings.Join(budgets, ";"), "expert budgets, separated by semicolons; the first is what others are compared with")
	flag.StringVar(&workerArguments, "worker", "", "more arguments for every worker, for example \"--prefetch off\"")
	flag.Parse()
	o.tables, o.worker = strings.Split(chosen, ","), strings.Fields(workerArguments)
	o.budgets = strings.Split(budgetList, ";")
	if o.work == "" {
		return errors.New("--work is missing: a folder on a disk")
	}
	for _, name := range o.tables {
		if !slices.Contains(names, name) {
			return fmt.Errorf("--tables %s: valid are %s", name, strings.Join(names, ", "))
		}
	}
	if err := os.MkdirAll(o.work, 0o755); err != nil {
		return err
	}
	if o.moepool == "" {
		o.moepool = filepath.Join(o.work, "moepool")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.moepool, "./cmd/moepool")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	b, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if !slices.Contains(o.tables, t.name) {
			continue
		}
		fmt.Printf("\n## %s (%s, load before %s)\n\n", t.what, time.Now().UTC().Format(time.DateOnly), machine.Load())
		if err := t.print(ctx, b, os.Stdout); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}
