//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/residency"
)

// recordedTrace writes a trace of 60 tokens through 4 layers of 16 experts, with room for a third of them; a budget has cut an expert of each second token.
func recordedTrace(t *testing.T) (file string, totals residency.Totals) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "trace.ndjson")
	w, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	l, err := residency.New(residency.Options{Limit: 21 << 20, Layers: []int{0, 1, 2, 3}, Parts: 16, Bytes: func(residency.Part) int64 { return 1 << 20 }})
	if err != nil {
		t.Fatal(err)
	}
	r, err := residency.NewRecorder(w, "here", l)
	if err != nil {
		t.Fatal(err)
	}
	a := residency.NewAccount(l, r)
	for token := range uint32(60) {
		for layer := range uint32(4) {
			parts := []uint32{token % 4, 4 + (token*7+layer)%6, 10 + (token*token+layer)%6}
			var cut []residency.LayerParts
			if token%2 == 1 {
				cut = []residency.LayerParts{{Layer: int(layer), Parts: parts[2:]}}
				parts = parts[:2]
			}
			a.Work(int(layer), parts, nil, cut)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file, a.Totals()
}

func TestBenchTrace(t *testing.T) {
	t.Parallel()
	file, totals := recordedTrace(t)
	var rows []traceRow
	mustUnmarshal(t, moepool(t, "bench", "--trace", file, "--json"), &rows)
	var names []string
	for _, r := range rows {
		names = append(names, r.Eviction)
		if r.Worker != "here" || r.ResidentLimit != 21<<20 || r.Requests != 240 || r.Hits+r.Misses != totals.Hits+totals.Misses || r.MissBytes != int64(r.Misses)<<20 {
			t.Errorf("a row is %+v", r)
		}
		if r.Recorded != (r.Eviction == residency.Default.String()) {
			t.Errorf("%s is as recorded: %v", r.Eviction, r.Recorded)
		}
	}
	if want := append(slices.Clone(residency.Names), optimumPolicy); !slices.Equal(names, want) {
		t.Fatalf("the rows are of %v, want %v", names, want)
	}
	if r := rows[0]; r.Hits != totals.Hits || r.MissBytes != totals.MissBytes || *r.GhostBytes != totals.GhostBytes || *r.BytesNotRead != totals.GhostBytes-totals.MissBytes {
		t.Errorf("the replay is %+v, the worker counted %+v", r, totals)
	}
	if bound := rows[len(rows)-1]; bound.GhostBytes != nil || bound.Hits < rows[0].Hits {
		t.Errorf("the bound is %+v", bound)
	}

	mustUnmarshal(t, moepool(t, "bench", "--trace", file, "--json", "--resident-limit", "8MiB,1/2,1/1", "--eviction", "lru"), &rows)
	if len(rows) != 3 || rows[0].ResidentLimit != 8<<20 || rows[1].ResidentLimit != 28<<20 || rows[2].ResidentLimit != 56<<20 || rows[2].Misses != 48 {
		t.Errorf("rows of three limits are %+v", rows)
	}

	table := moepool(t, "bench", "--trace", file)
	if lines := strings.Split(strings.TrimSpace(table), "\n"); len(lines) != 5 || !strings.Contains(lines[1], "as recorded") || !strings.Contains(lines[0], "hit rate") {
		t.Errorf("the table is\n%s", table)
	}
	if csv := moepool(t, "bench", "--trace", file, "--output", "csv"); !strings.HasPrefix(csv, "worker,eviction,resident_limit,limit_share,recorded,requests,hits,") {
		t.Errorf("the CSV is\n%s", csv)
	}
}

func TestBenchTraceRefuses(t *testing.T) {
	t.Parallel()
	file, _ := recordedTrace(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	write := func(name, text string) string {
		name = filepath.Join(filepath.Dir(file), name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	without := write("without", strings.Join(slices.Delete(slices.Clone(lines), 5, 6), ""))
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, "no such file", []string{"--trace", file + ".none"}},
		{2, "valid are next-use, lfu, lru, optimum", []string{"--trace", file, "--eviction", "fifo"}},
		{2, "or a share such as 1/3", []string{"--trace", file, "--resident-limit", "much"}},
		{2, "3/2 is no share", []string{"--trace", file, "--resident-limit", "3/2"}},
		{2, "a recorded --trace", nil},
		{1, "no room for even one expert part", []string{"--trace", file, "--resident-limit", "1000"}},
		{1, "line 3 of the residency trace", []string{"--trace", write("bad", lines[0]+lines[1]+"{}\n")}},
		{1, "not a residency trace", []string{"--trace", write("other", "hello\n")}},
		{1, "something is missing in it", []string{"--trace", without}},
	} {
		if got := moepoolFails(t, c.code, append([]string{"bench"}, c.args...)...); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s, want %q", c.args, got, c.want)
		}
	}

	// A worker that was killed: no comparison, but a warning.
	p := startProcess(t, "bench", "--trace", write("torn", strings.Join(lines[:50], "")+`{"op":"wo`), "--json")
	code := p.await(t, waitLimit)
	var rows []traceRow
	mustUnmarshal(t, p.stdout.String(), &rows)
	if code != 0 || rows[0].Recorded || rows[0].Requests != 49 || !strings.Contains(p.stderr.String(), "has no end") {
		t.Errorf("exit code %d, %+v; stderr:\n%s", code, rows[0], p.stderr.String())
	}
}
