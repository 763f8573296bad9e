// Command placement prints the tables of docs/placement.md: how long the slowest worker of a layer takes, relative to an even spread.
//
//	go run ./docs/placement [TRACE…]     # default: the traces of testdata/routing
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moepool/moepool/coordinator/placement/comparison"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type namedTrace struct {
	name string
	*comparison.Trace
}

func run(files []string) error {
	if len(files) == 0 {
		files, _ = filepath.Glob("testdata/routing/*.routing") // the pattern is well formed
	}
	var traces []namedTrace
	for _, file := range files {
		t, err := comparison.ReadFile(file)
		if err != nil {
			return err
		}
		traces = append(traces, namedTrace{strings.TrimSuffix(filepath.Base(file), ".routing"), t})
	}
	for _, exponent := range []float64{0, 0.5, 1, 1.5} {
		traces = append(traces, namedTrace{fmt.Sprintf("Zipf, exponent %g", exponent), comparison.Zipf(4, 8192, 128, 8, exponent, 1)})
	}
	for _, t := range traces {
		for _, replicas := range []bool{false, true} {
			if err := table(t, replicas); err != nil {
				return err
			}
		}
	}
	return nil
}

// table prints a trace's table: the plans are made by the counts of its first half and played with the second.
func table(t namedTrace, replicas bool) error {
	memory := "no replicas"
	if replicas {
		memory = "memory for an eighth more experts, at least one on each worker"
	}
	fmt.Printf("\n%s: %d layers, %d of %d experts, %s\n\n| workers |", t.name, len(t.Rows), t.TopK, t.Experts, memory)
	for _, p := range comparison.Planners() {
		fmt.Printf(" %s |", p.Name)
	}
	fmt.Printf("\n|%s\n", strings.Repeat("---|", 1+len(comparison.Planners())))
	for _, workers := range []int{2, 4, 8, 16} {
		fmt.Printf("| %d |", workers)
		for _, p := range comparison.Planners() {
			for i, batch := range []int{1, 8, 64} {
				s, err := comparison.Compare(t.Trace, p, workers, batch, max(4096, 256*batch), replicas)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", t.name, p.Name, err)
				}
				fmt.Printf("%s%.3f", []string{" ", " / ", " / "}[i], s.Time*float64(workers))
			}
			fmt.Print(" |")
		}
		fmt.Println()
	}
	return nil
}
