// Command policies prints the table of docs/residency.md that compares eviction policies: how many of the wanted experts are in memory, by policy and limit.
//
//	go run ./docs/residency/policies [TRACE…]     # routing traces; default: those of testdata/routing
//
// Each is played in two ways: token by token, and with a prompt of half the rows before each 128 tokens. Two drawn traces are added (draw.go).
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moepool/moepool/coordinator/placement/comparison"
	"github.com/moepool/moepool/residency"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(files []string) error {
	if len(files) == 0 {
		files, _ = filepath.Glob("testdata/routing/*.routing") // the pattern is well formed
	}
	fmt.Printf("| routing | played | %s | optimum |\n|---|---|%s---|\n", strings.Join(residency.Names, " | "), strings.Repeat("---|", len(residency.Names)))
	for _, file := range files {
		t, err := comparison.ReadFile(file)
		if err != nil {
			return err
		}
		if err := compare(strings.TrimSuffix(filepath.Base(file), ".routing"), t); err != nil {
			return err
		}
	}
	for _, d := range []drawing{{exponent: 1, swaps: 12}, {exponent: 0.7, swaps: 38, repeat: 0.2}} {
		if err := compare(fmt.Sprintf("Zipf, exponent %g", d.exponent), d.trace()); err != nil {
			return err
		}
	}
	return nil
}

// window is a prompt and its answer.
const window = 256

// compare prints the lines of one routing.
func compare(name string, t *comparison.Trace) error {
	name = fmt.Sprintf("%s: %d of %d experts, %d layers", name, t.TopK, t.Experts, len(t.Rows))
	for _, prompt := range []int{0, window / 2} {
		played := "token by token"
		if prompt > 0 {
			played = fmt.Sprintf("prompts of %d, then %d tokens", prompt, window-prompt)
		}
		trace, err := record(t, prompt)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %s |", name, played)
		for _, policy := range append(slices.Clone(residency.Names), "") {
			for i, share := range []int64{6, 3, 2} {
				rate, err := hitRate(trace, policy, trace.Bytes()/share)
				if err != nil {
					return err
				}
				fmt.Printf("%s%.1f", []string{" ", " / ", " / "}[i], 100*rate)
			}
			fmt.Print(" |")
		}
		fmt.Println()
	}
	return nil
}

// hitRate replays a trace; policy "" is the optimum.
func hitRate(trace *residency.Trace, policy string, limit int64) (float64, error) {
	if policy == "" {
		sum, err := trace.Optimum(limit)
		return sum.HitRate(), err
	}
	p, err := residency.Parse(policy)
	if err != nil {
		return 0, err
	}
	sum, err := trace.Replay(p, limit)
	return sum.HitRate(), err
}

// record asks a ledger for what the rows of a routing want: each row alone, or of each window first so many as a prompt at once.
func record(t *comparison.Trace, prompt int) (*residency.Trace, error) {
	o := residency.Options{Parts: t.Experts, Limit: int64(len(t.Rows) * t.Experts), Bytes: func(residency.Part) int64 { return 1 }}
	for layer := range t.Rows {
		o.Layers = append(o.Layers, layer)
	}
	l, err := residency.New(o)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	r, err := residency.NewRecorder(&file, "", l)
	if err != nil {
		return nil, err
	}
	a := residency.NewAccount(l, r)
	for row := 0; row < t.Len(); {
		rows := 1
		if row%window == 0 && prompt > 0 {
			rows = min(prompt, t.Len()-row)
		}
		for layer := range t.Rows {
			var ids []uint32
			for i := range rows {
				for _, expert := range t.Row(layer, row+i) {
					ids = append(ids, uint32(expert))
				}
			}
			slices.Sort(ids)
			a.Request(layer, slices.Compact(ids))
		}
		row += rows
	}
	if err := a.Close(); err != nil {
		return nil, err
	}
	return residency.ReadTrace(&file)
}
