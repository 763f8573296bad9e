package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/moepool/moepool/cmd/moepool/internal/chart"
	"github.com/moepool/moepool/internal/bytesize"
)

// evalColumns are the columns of the table; a column in which no row has anything is left out.
var evalColumns = []struct {
	name string
	text func(*evalRow) string
}{
	{"format", func(r *evalRow) string { return r.Format }},
	{"resident", func(r *evalRow) string { return optional(r.ResidentLimit, bytesize.Text) }},
	{"budget", func(r *evalRow) string {
		if r.Arm == armReference || r.Arm == armNull {
			return r.Arm
		}
		return r.Budget
	}},
	{"perplexity", func(r *evalRow) string { return fmt.Sprintf("%.4f", r.Perplexity) }},
	{"nll", func(r *evalRow) string { return fmt.Sprintf("%.2f", r.NLL) }},
	{"tokens", func(r *evalRow) string { return fmt.Sprint(r.Tokens) }},
	{"against", func(r *evalRow) string { return optional(r.ReferenceFormat, func(s string) string { return s }) }},
	{"kld mean", func(r *evalRow) string { return floatText(r.KLDMean, 1, "%.6f") }},
	{"±", func(r *evalRow) string { return floatText(r.KLDMeanError, 1, "%.6f") }},
	{"99.9 %", func(r *evalRow) string { return floatText(r.KLDP999, 1, "%.4f") }},
	{"max", func(r *evalRow) string { return floatText(r.KLDMax, 1, "%.4f") }},
	{"rms dp", func(r *evalRow) string { return floatText(r.RMSDeltaP, 100, "%.3f %%") }},
	{"same top p", func(r *evalRow) string { return floatText(r.SameTopP, 100, "%.2f %%") }},
	{"greedy", func(r *evalRow) string {
		if r.GreedyTokens == nil {
			return ""
		}
		return floatText(r.GreedyAgreement, 1, "%.1f") + fmt.Sprintf("/%d", *r.GreedyTokens)
	}},
	{"tokens/s", func(r *evalRow) string { return fmt.Sprintf("%.2f", r.TokensPerSecond) }},
	{"hits", func(r *evalRow) string { return floatText(r.HitRate, 100, "%.1f %%") }},
	{"read/token", func(r *evalRow) string { return bytesOrNothing(r.BytesReadPerToken) }},
	{"missing/token", func(r *evalRow) string { return bytesOrNothing(r.MissBytesPerToken) }},
	{"not read/token", func(r *evalRow) string { return optional(r.BytesNotReadPerToken, bytesOrNothing) }},
	{"dropped mass", func(r *evalRow) string {
		if r.DroppedMassMean == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f %%", 100*r.DroppedMassMean)
	}},
	{"", func(r *evalRow) string {
		if r.Pareto && r.KLDMean != nil {
			return "*"
		}
		return ""
	}},
}

func optional[T any](value *T, text func(T) string) string {
	if value == nil {
		return ""
	}
	return text(*value)
}

func floatText(value *float64, times float64, format string) string {
	return optional(value, func(v float64) string { return fmt.Sprintf(format, v*times) })
}

func bytesOrNothing(n float64) string {
	if n == 0 {
		return ""
	}
	return bytesize.Text(int64(n))
}

// printRows writes rows as a table.
func printRows(out io.Writer, rows []evalRow) error {
	var columns [][]string
	for _, c := range evalColumns {
		column := []string{c.name}
		for i := range rows {
			column = append(column, c.text(&rows[i]))
		}
		if slices.ContainsFunc(column[1:], func(s string) bool { return s != "" }) {
			columns = append(columns, column)
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for line := range len(rows) + 1 {
		for _, column := range columns {
			fmt.Fprintf(table, "%s\t", column[line])
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var starts []string
	for _, r := range rows {
		if r.Phase == "decode" && !slices.Contains(starts, r.Start) {
			starts = append(starts, r.Start)
		}
	}
	for _, start := range starts {
		fmt.Fprintf(out, "runs began with: %s\n", start)
	}
	if nothingMissing(rows) {
		fmt.Fprintln(out, "all experts were in memory, so the budgets had nothing to cut: --resident-limit says how much of them may be")
	}
	return nil
}

// nothingMissing says whether budgets were measured that dropped nothing because nothing had to be read.
func nothingMissing(rows []evalRow) bool {
	budgets := false
	for _, r := range rows {
		budgets = budgets || r.Arm == armBudget
		if r.Phase == "decode" && r.ResidentLimit != nil || r.Arm == armBudget && (r.DroppedExperts > 0 || r.HitRate == nil || *r.HitRate < 1) {
			return false
		}
	}
	return budgets
}

// writeRowsCSV writes rows with a line of names, those of the JSON; what was not measured is empty.
func writeRowsCSV(out io.Writer, rows []evalRow) error {
	w := csv.NewWriter(out)
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[evalRow]()) {
		names = append(names, field.Tag.Get("json"))
	}
	if err := w.Write(names); err != nil {
		return err
	}
	for i := range rows {
		row := reflect.ValueOf(&rows[i]).Elem()
		var record []string
		for n := range row.NumField() {
			text, err := json.Marshal(row.Field(n).Interface())
			if err != nil {
				return err
			}
			value := string(text)
			switch {
			case value == "null":
				value = ""
			case strings.HasPrefix(value, `"`):
				if err := json.Unmarshal(text, &value); err != nil {
					return err
				}
			}
			record = append(record, value)
		}
		if err := w.Write(record); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// writeFileWith makes a file with what write writes.
func writeFileWith(path string, write func(*os.File) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		file.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return file.Close()
}

// plotRows draws all rows but references: a series is what is compared with each other, by the format.
func plotRows(path string, rows []evalRow) error {
	c := chart.Chart{Title: "moepool eval: speed and quality", Speed: "tokens/s", Loss: "perplexity"}
	for _, r := range rows {
		if r.Arm == armReference {
			continue
		}
		if r.KLDMean != nil {
			c.Loss, c.Logarithmic = "mean KL divergence from the reference (nats a token)", true
		}
		i := slices.IndexFunc(c.Series, func(s chart.Series) bool { return s.Name == r.group() })
		if i < 0 {
			i = len(c.Series)
			c.Series = append(c.Series, chart.Series{Name: r.group()})
		}
		label := r.Budget
		if r.ReferenceFormat == nil || *r.ReferenceFormat != r.Format {
			label = strings.TrimSuffix(r.Format+" "+r.Budget, " "+offBudget)
		}
		c.Series[i].Points = append(c.Series[i].Points, chart.Point{Speed: r.TokensPerSecond, Loss: r.loss(), Label: label, Front: r.Pareto})
	}
	return writeFileWith(path, func(w *os.File) error { return c.Write(w, plotFormat(path)) })
}
