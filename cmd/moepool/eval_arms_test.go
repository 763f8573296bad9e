//go:build linux

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/worker"
)

// heldout is a beginning of the demo model's text.
func heldout(t testing.TB, bytes int) string {
	t.Helper()
	text, err := os.ReadFile("../../testdata/demo/heldout.txt")
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, string(text[:bytes]))
}

// evalRows is `eval --json`.
func evalRows(t testing.TB, args ...string) (rows []evalRow) {
	t.Helper()
	if !slices.Contains(args, "--arena-dir") {
		args = append(args, "--arena-dir", "none")
	}
	decoder := json.NewDecoder(strings.NewReader(moepool(t, append([]string{"eval", "--json"}, args...)...)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestEvalBudgets runs the demo model token by token under budgets, as if no expert were in memory: the null arm is exactly the
// reference, a smaller budget is worse, and what is written agrees with the JSON.
func TestEvalBudgets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table, svg, picture := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.PNG")
	rows := evalRows(t, heldout(t, 1500), "--window", "48", "--windows", "4", "--rows", "2", "--expert-budget", "4; 6;off", "--budget-residency", "none",
		"--greedy", "12", "--greedy-prompt", "8", "--csv", table, "--plot", svg, "--plot", picture)
	var arms []string
	for _, r := range rows {
		arms = append(arms, r.Arm+" "+r.Budget)
		if r.Format != "q8" || r.Phase != "decode" || r.Rows != 2 || r.Tokens != 4*47 || r.TokensPerSecond <= 0 || r.HitRate == nil {
			t.Errorf("row %+v", r)
		}
	}
	if d := cmp.Diff([]string{"reference off", "null off", "budget count=4", "budget count=6"}, arms); d != "" {
		t.Fatal(d)
	}
	reference, null, four, six := rows[0], rows[1], rows[2], rows[3]
	if reference.KLDMean != nil || reference.Pareto || reference.DroppedExperts != 0 {
		t.Errorf("the reference: %+v", reference)
	}
	if *null.KLDMean != 0 || *null.KLDMax != 0 || *null.KLDMeanError != 0 || *null.RMSDeltaP != 0 || *null.SameTopP != 1 || null.NLL != reference.NLL ||
		*null.ReferencePerplexity != null.Perplexity || *null.GreedyAgreement != 12 || *null.GreedyMedian != 12 || *null.GreedyTokens != 12 || null.DroppedMassMean != 0 || !null.Pareto && !four.Pareto && !six.Pareto {
		t.Errorf("the null arm: %+v", null)
	}
	if !(*four.KLDMean > *six.KLDMean && *six.KLDMean > 0) || !(four.DroppedMassMean > six.DroppedMassMean && six.DroppedMassMean > 0 && four.DroppedMassMean < 1) ||
		*four.GreedyAgreement < 1 || *four.GreedyAgreement >= 12 || four.DroppedExperts <= six.DroppedExperts {
		t.Errorf("budget 4: %+v\nbudget 6: %+v", four, six)
	}
	requireCSV(t, table, rows)
	requirePictures(t, svg, picture)
}

// requireCSV compares a file with rows.
func requireCSV(t *testing.T, path string, rows []evalRow) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil || len(records) != len(rows)+1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for i, row := range rows {
		data, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		var values map[string]any
		mustUnmarshal(t, string(data), &values)
		if len(values) != len(records[0]) {
			t.Errorf("%d columns, %d keys", len(records[0]), len(values))
		}
		for n, name := range records[0] {
			var got any = records[i+1][n]
			if got == "" {
				got = nil
			} else if _, text := values[name].(string); !text {
				mustUnmarshal(t, records[i+1][n], &got)
			}
			if got != values[name] {
				t.Errorf("row %d: %s is %v in the file, %v in the JSON", i, name, got, values[name])
			}
		}
	}
}

func requirePictures(t *testing.T, svg, picture string) {
	t.Helper()
	document, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(bytes.NewReader(document))
	var text strings.Builder
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", svg, err)
		}
		if data, ok := token.(xml.CharData); ok {
			text.Write(data)
		}
	}
	for _, want := range []string{"count=4", "count=6", "off", "tokens/s", "KL divergence"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the picture has no %q", want)
		}
	}
	file, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if p, err := png.Decode(file); err != nil || p.Bounds().Dx() < 500 {
		t.Errorf("%s: %v", picture, err)
	}
}

// TestEvalLimits runs the demo model with less than half of its experts in memory: the same bits without a budget, and each arm begins alike,
// so it gives the same whatever came before it. Nothing stays behind of what the arms needed most.
func TestEvalLimits(t *testing.T) {
	if underRace {
		t.Skip("a minute under the race detector, which TestCountersReconcile shows workers with a limit")
	}
	t.Parallel()
	text, arena := heldout(t, 700), t.TempDir()
	arguments := []string{text, "--arena-dir", arena, "--window", "32", "--windows", "5", "--greedy", "0", "--warmup", "16", "--workers", "1",
		"--prefetch", "off"} // what is read ahead depends on time
	rows := evalRows(t, append(arguments, "--resident-limit", "none,850KiB", "--expert-budget", "mass=0.3;topp=0.6")...)
	if len(rows) != 7 {
		t.Fatalf("rows %+v", rows)
	}
	free, null, cut := rows[1], rows[4], rows[5]
	if free.ResidentLimit != nil || free.BytesNotReadPerToken != nil || *free.HitRate != 1 || free.Start != startFollowing {
		t.Errorf("without a limit: %+v", free)
	}
	if null.Arm != armNull || *null.ResidentLimit != 850<<10 || *null.KLDMax != 0 || null.NLL != rows[0].NLL || !(*null.HitRate > 0.1 && *null.HitRate < 0.8) ||
		null.MissBytesPerToken == 0 || *null.BytesNotReadPerToken != 0 || !strings.Contains(null.Start, "nothing in memory, then 16 tokens without a budget") {
		t.Errorf("the null arm under a limit: %+v", null)
	}
	if cut.Budget != "mass=0.3" || !(*cut.KLDMean > 0) || cut.DroppedMassMean == 0 || cut.DroppedMassMax > 0.3 || *cut.BytesNotReadPerToken <= 0 ||
		cut.MissBytesPerToken >= null.MissBytesPerToken || cut.Start != null.Start {
		t.Errorf("a budget under a limit: %+v", cut)
	}
	// What a budget drops depends on what is in memory, and that on the works so far alone, not on when the coordinator hears of it.
	again := evalRows(t, append(arguments, "--resident-limit", "850KiB", "--expert-budget", "topp=0.6;mass=0.3")...)
	for i, first := range []evalRow{rows[6], rows[5]} {
		other := again[len(again)-2+i]
		if other.Budget != first.Budget || other.NLL != first.NLL || *other.KLDMean != *first.KLDMean || *other.HitRate != *first.HitRate ||
			other.MissBytesPerToken != first.MissBytesPerToken {
			t.Errorf("behind other arms: %+v, in another order: %+v", first, other)
		}
	}
	left, err := filepath.Glob(filepath.Join(arena, "*", "*", worker.ProfileName))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestEvalSaysThatNothingWasMissing: a person who forgets the limit reads why all budgets are alike, and nobody else does.
func TestEvalSaysThatNothingWasMissing(t *testing.T) {
	t.Parallel()
	all, some, limit := 1.0, 0.5, int64(1<<20)
	for _, test := range []struct {
		row  evalRow
		said bool
	}{
		{evalRow{Arm: armBudget, Phase: "decode", HitRate: &all}, true},
		{evalRow{Arm: armBudget, Phase: "decode", HitRate: &some}, false},
		{evalRow{Arm: armBudget, Phase: "decode", HitRate: &all, DroppedExperts: 1}, false},
		{evalRow{Arm: armBudget, Phase: "decode", HitRate: &all, ResidentLimit: &limit}, false},
		{evalRow{Arm: armNull, Phase: "decode", HitRate: &all}, false},
	} {
		var out strings.Builder
		if err := printRows(&out, []evalRow{test.row}); err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(out.String(), "--resident-limit"); said != test.said {
			t.Errorf("%+v: said %t", test.row, said)
		}
	}
}

// TestEvalPrintsBeforeAnError: what was measured before an error is printed.
func TestEvalPrintsBeforeAnError(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "eval", "--json", heldout(t, 300), "--arena-dir", t.TempDir(), "--window", "16", "--greedy", "0", "--resident-limit", "none,1KiB")
	if code := p.await(t, waitLimit); code != exitFailure || !strings.Contains(p.stderr.String(), "limit") {
		t.Fatalf("exit code %d; stderr:\n%s", code, p.stderr.String())
	}
	var rows []evalRow
	mustUnmarshal(t, p.stdout.String(), &rows)
	if len(rows) != 2 || rows[1].Arm != armNull {
		t.Errorf("rows %+v", rows)
	}
}

// Prefill is not cut by a budget for decoding: each token's prediction has the same bits. With --budget-prefill it is cut.
func TestEvalPrefillIsNotCut(t *testing.T) {
	t.Parallel()
	text := heldout(t, 600)
	arguments := []string{text, "--window", "64", "--prefill-chunk", "24", "--expert-budget", "1", "--budget-residency", "none"}
	rows := evalRows(t, arguments...)
	if r := rows[1]; len(rows) != 2 || r.Phase != "prefill" || r.Budget != "count=1" || *r.KLDMax != 0 || *r.SameTopP != 1 || r.NLL != rows[0].NLL || r.DroppedExperts != 0 {
		t.Errorf("rows %+v", rows)
	}
	rows = evalRows(t, append(arguments, "--budget-prefill")...)
	if r := rows[1]; !(*r.KLDMean > 0) || r.DroppedExperts == 0 {
		t.Errorf("with --budget-prefill: %+v", r)
	}
}

// Without a budget, windows token by token have the bits of windows as prompts.
func TestEvalPhasesAgree(t *testing.T) {
	t.Parallel()
	text := heldout(t, 600)
	prompts := evalRows(t, text, "--window", "32")
	tokens := evalRows(t, text, "--window", "32", "--rows", "3", "--greedy", "0")
	if prompts[0].Phase != "prefill" || tokens[0].Phase != "decode" || tokens[0].GreedyAgreement != nil {
		t.Errorf("%+v\n%+v", prompts, tokens)
	}
	if tokens[1].Perplexity != tokens[0].Perplexity || *tokens[1].KLDMax != 0 {
		t.Errorf("the null arm: %+v", tokens[1])
	}
	requireNear(t, "token by token", tokens[0].Perplexity, prompts[0].Perplexity, 1e-12) // the sum's order differs
}

// evalKeys are the keys of a row, which scripts read.
var evalKeys = []string{
	"format", "arm", "budget", "resident_limit", "phase", "rows", "start", "perplexity", "nll", "tokens", "reference_format", "reference_perplexity", "kld_mean",
	"kld_mean_error", "kld_p999", "kld_max", "rms_dp", "same_top_p", "greedy_agreement", "greedy_agreement_median", "greedy_tokens", "tokens_per_s", "hit_rate",
	"miss_bytes_per_token", "bytes_read_per_token", "bytes_not_read_per_token", "major_faults", "dropped_mass_mean", "dropped_mass_p99", "dropped_mass_max",
	"dropped_experts", "filled_choices", "rescued_rows", "pareto",
}

func TestEvalKeys(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := writeRowsCSV(&out, nil); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(evalKeys, strings.Split(strings.TrimSpace(out.String()), ",")); d != "" {
		t.Error(d)
	}
	data, err := json.Marshal(evalRow{})
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	mustUnmarshal(t, string(data), &keys)
	for key := range keys {
		if !slices.Contains(evalKeys, key) {
			t.Errorf("the JSON has %s", key)
		}
	}
}

// Wrong lists and flags say what is wrong and what is valid, before anything is loaded.
func TestEvalUsage(t *testing.T) {
	t.Parallel()
	text := writeFile(t, "words")
	for _, c := range []struct {
		flags []string
		says  []string
	}{
		{[]string{"--format", "q8,q5"}, []string{"--format", `"q5"`, "q4"}},
		{[]string{"--format", "q8,,q4"}, []string{"--format", "item 2 of the list is empty", `","`}},
		{[]string{"--format", "q8,q8"}, []string{"--format", "twice"}},
		{[]string{"--expert-budget", "4;;6"}, []string{"--expert-budget", "item 2 of the list is empty", `";"`}},
		{[]string{"--expert-budget", "4;many"}, []string{"--expert-budget", `"many"`}},
		{[]string{"--expert-budget", "4;count=4"}, []string{"--expert-budget", "count=4, which is there twice"}},
		{[]string{"--expert-budget", ""}, []string{"--expert-budget", "empty"}},
		{[]string{"--resident-limit", "1GiB,much"}, []string{"--resident-limit", `"much"`, "4GiB"}},
		{[]string{"--resident-limit", "1GiB,"}, []string{"--resident-limit", "item 2 of the list is empty"}},
		{[]string{"--plot", "a.gif"}, []string{"--plot a.gif", ".svg or .png"}},
		{[]string{"--rows", "0"}, []string{"--rows is 0"}},
		{[]string{"--rows", "2", "--prefill-chunk", "8"}, []string{"--prefill-chunk", "--rows", "don't go together"}},
		{[]string{"--windows", "-1"}, []string{"--windows is -1"}},
		{[]string{"--window", "1"}, []string{"--window is 1"}},
		{[]string{"--greedy-prompt", "0"}, []string{"--greedy-prompt is 0"}},
	} {
		message := moepoolFails(t, exitUsage, append([]string{"eval", text}, c.flags...)...)
		for _, want := range c.says {
			if !strings.Contains(message, want) {
				t.Errorf("%v: %q does not say %q", c.flags, message, want)
			}
		}
		if flag := c.flags[0] + ": "; strings.Contains(message, flag+flag) {
			t.Errorf("%v: %q names the flag twice", c.flags, message)
		}
	}
	message := moepoolFails(t, exitFailure, "eval", text, "--arena-dir", "none", "--rows", "1", "--scratch-dir", filepath.Join(t.TempDir(), "none"))
	if !strings.Contains(message, "reference") {
		t.Errorf("without a scratch folder: %s", message)
	}
}

func TestEvalScratchSpace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := requireSpace(dir, 1, "it"); err != nil {
		t.Error(err)
	}
	if err := requireSpace(dir, 1<<60, "it takes 1 EiB"); err == nil || !strings.Contains(err.Error(), "it takes 1 EiB, where ") || !strings.Contains(err.Error(), "--scratch-dir") {
		t.Errorf("no room: %v", err)
	}
}
