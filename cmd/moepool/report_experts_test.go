//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/moepool/moepool/transport"
)

// A run with a budget says what was cut, in JSON and, at the default log level, in a line at its end; without a ledger nobody knows what
// was not read.
func TestRunReportsBudget(t *testing.T) {
	t.Parallel()
	arguments := []string{"--expert-budget", "1,fill=16", "--budget-residency", "0,1,2,3", "--workers", "2", "--arena-dir", "none", "--max-tokens", "6", demoPrompt}
	r := runJSON(t, arguments...)
	b := r.Budget
	if b == nil {
		t.Fatal("no budget in the report")
	}
	if b.Policy != "count=1,fill=16" || b.N != 1 || b.Prefill || !b.Rescue || b.BytesNotRead != nil {
		t.Errorf("%+v", b)
	}
	// Five layers; the first token is from prefill, which isn't cut.
	if b.Rows != 5*5 || b.DroppedExperts == 0 || b.DroppedChoices < b.DroppedExperts || b.Filled == 0 || b.CutRows > int(b.Rows) || b.DroppedBytes == 0 {
		t.Errorf("%+v", b)
	}
	if !(0 < b.MassMean && b.MassMean <= b.MassP99 && b.MassP99 <= b.MassMax && b.MassMax <= 1) {
		t.Errorf("%+v", b)
	}
	p := startProcess(t, append([]string{"run"}, arguments...)...)
	if code := p.await(t, waitLimit); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr.String())
	}
	stdout, stderr, line := p.stdout.String(), p.stderr.String(), b.summary()
	if !strings.Contains(stderr, line) || !strings.Contains(line, "expert budget count=1,fill=16: ") || !strings.Contains(line, "not read") || strings.TrimSpace(stdout) != strings.TrimSpace(r.Text) {
		t.Errorf("stderr %q has no line %q", stderr, line)
	}
}

func TestBudgetReport(t *testing.T) {
	t.Parallel()
	u := &transport.ExpertUsage{Budget: "count=4", DroppedExperts: 7, FilledChoices: 3, RescuedRows: 2, DroppedShares: [3]float64{0.123, 0.4, 0.5},
		DroppedBytes: 3 << 20, BytesNotRead: 2 << 20}
	r := newBudgetReport(u)
	if got, want := r.summary(), "[expert budget count=4: 7 experts dropped, 3 taken instead by rows; a row lost 12.3 % of its weight on average, at most 50 %, "+
		"2 rows were rescued; at most 3.0 MiB not read]"; got != want || r.N != 4 {
		t.Errorf("%q, want %q", got, want)
	}
	u.Ledgers = true
	if r := newBudgetReport(u); r.BytesNotRead == nil || *r.BytesNotRead != 2<<20 || !strings.HasSuffix(r.summary(), "; 2.0 MiB not read]") {
		t.Errorf("%+v: %s", r, r.summary())
	}
	u.Budget = "off"
	if text := newBudgetReport(u).summary(); text != "" {
		t.Errorf("off: %q", text)
	}
	if text := (*budgetReport)(nil).summary(); text != "" {
		t.Errorf("no report: %q", text)
	}
}
