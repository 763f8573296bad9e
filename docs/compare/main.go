// Command compare measures moepool and its peers in turn, on one machine and the same weights, and prints medians and ratios:
//
//	../shared/peers/peers.sh setup WORK       (IK=1: with ik_llama.cpp)
//	go run ./docs/compare --work WORK
//
// It owns how each contestant is called and how its output is read. It must know nothing of moepool's packages: it calls the
// binary, as for the peers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moepool/moepool/docs/internal/machine"
)

// options are the flags, checked.
type options struct {
	work, scripts, moepool string
	rounds, threads        int
	tests, weights         []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o options
	var tests, weights string
	flag.StringVar(&o.work, "work", "", "folder of peers.sh")
	flag.StringVar(&o.scripts, "scripts", "../shared/peers", "folder of bench_kt.py; without it kt-kernel is left out")
	flag.StringVar(&o.moepool, "moepool", "", "binary (default: built now)")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds, of which medians are taken")
	flag.IntVar(&o.threads, "threads", 2, "threads of each contestant")
	flag.StringVar(&tests, "tests", "layer,model,rpc", "layer: one MoE layer; model: pp512, pp64, tg32; rpc: two workers of half the threads")
	flag.StringVar(&weights, "weights", "8,4,16", "bits of the weights")
	flag.Parse()
	o.tests, o.weights = strings.Split(tests, ","), strings.Split(weights, ",")
	if o.work == "" {
		return errors.New("--work is missing: the folder in which peers.sh was set up")
	}
	if o.moepool == "" {
		folder, err := os.MkdirTemp("", "moepool-compare-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		o.moepool = filepath.Join(folder, "moepool")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.moepool, "./cmd/moepool")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	for _, bits := range o.weights {
		w, ok := weightFormats[bits]
		if !ok {
			return fmt.Errorf("--weights %s: 8, 4 and 16 are known", bits)
		}
		for _, test := range o.tests {
			contestants, err := o.contestants(test, w)
			if err != nil {
				return err
			}
			if len(contestants) == 0 {
				continue
			}
			r := newResults()
			for round := range o.rounds {
				for _, c := range contestants {
					fmt.Fprintf(os.Stderr, "%s bits, %s, round %d of %d: %s, load %s\n", bits, test, round+1, o.rounds, c.name, machine.Load())
					samples, err := c.measure(ctx)
					if ctx.Err() != nil {
						return ctx.Err()
					}
					if err != nil {
						fmt.Fprintf(os.Stderr, "  failed: %v\n", err)
						continue
					}
					r.add(c.name, samples)
				}
			}
			fmt.Printf("\n%s, %s-bit weights, medians of %d rounds (%s)\n\n", test, bits, o.rounds, time.Now().UTC().Format(time.DateOnly))
			r.print(os.Stdout, contestants[0].name, test == "layer")
		}
	}
	return nil
}

// output runs a command and gives what it printed; its errors hold the end of what it said.
func output(ctx context.Context, name string, arguments ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, arguments...).Output()
	if err != nil {
		said := ""
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			said = strings.TrimSpace(string(exit.Stderr))
		}
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, said[max(0, len(said)-300):])
	}
	return out, nil
}

func threads(n int) []string { return []string{"--threads", strconv.Itoa(n)} }
