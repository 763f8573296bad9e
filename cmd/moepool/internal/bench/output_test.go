package bench

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var sampleRows = []Row{
	{Test: "layer", Rows: 8, Format: "q8", Kernels: "avx2", Threads: 2, BestMS: known(1.23456), MedianMS: known(2), GBPS: known(38.04), GOPS: known(0), RooflinePercent: known(91.25)},
	{Test: "pp, 64", Rows: 64, Format: "q8", Workers: 1, TokensPerSecond: known(216.5), SD: known(1.25)},
}

func written(t *testing.T, output string, rows []Row) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, output, rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWriteTable(t *testing.T) {
	t.Parallel()
	want := strings.Join([]string{
		"    test  rows  format  kernels  threads  workers  best ms  median ms  GB/s  GOP/s            t/s  % of roofline",
		"   layer     8      q8     avx2        2             1.235      2.000  38.0    0.0                          91.2",
		"  pp, 64    64      q8                          1                                   216.50 ± 1.25               ",
		"",
	}, "\n")
	if diff := cmp.Diff(want, written(t, "table", sampleRows)); diff != "" {
		t.Error(diff)
	}
}

func TestWriteMarkdown(t *testing.T) {
	t.Parallel()
	want := `| test | rows | format | workers | t/s |
| --- | ---: | --- | ---: | ---: |
| pp, 64 | 64 | q8 | 1 | 216.50 ± 1.25 |
`
	if diff := cmp.Diff(want, written(t, "md", sampleRows[1:])); diff != "" {
		t.Error(diff)
	}
}

func TestWriteCSV(t *testing.T) {
	t.Parallel()
	want := `test,rows,format,kernels,threads,workers,best_ms,median_ms,gbps,gops,tokens_per_s,sd,roofline_pct
layer,8,q8,avx2,2,0,1.23456,2,38.04,0,,,91.25
"pp, 64",64,q8,,0,1,,,,,216.5,1.25,
`
	if diff := cmp.Diff(want, written(t, "csv", sampleRows)); diff != "" {
		t.Error(diff)
	}
}

func TestWriteUnknownOutput(t *testing.T) {
	t.Parallel()
	if err := Write(&strings.Builder{}, "xml", nil); err == nil || !strings.Contains(err.Error(), "table, md, csv") {
		t.Errorf("xml: %v", err)
	}
	for _, o := range Outputs {
		written(t, o, nil)
	}
}
