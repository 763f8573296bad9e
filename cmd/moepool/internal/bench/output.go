package bench

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Outputs are the forms that Write knows.
var Outputs = []string{"table", "md", "csv"}

// Column is one column of a table of rows; Text is "" where a row has nothing to say.
type Column[R any] struct {
	Name string // as people read it
	Left bool   // adjusted
	Text func(r *R) string
}

var columns = []Column[Row]{
	{"test", true, func(r *Row) string { return r.Test }},
	{"rows", false, func(r *Row) string { return count(r.Rows) }},
	{"format", true, func(r *Row) string { return r.Format }},
	{"kernels", true, func(r *Row) string { return r.Kernels }},
	{"threads", false, func(r *Row) string { return count(r.Threads) }},
	{"workers", false, func(r *Row) string { return count(r.Workers) }},
	{"best ms", false, func(r *Row) string { return digits(r.BestMS, 3) }},
	{"median ms", false, func(r *Row) string { return digits(r.MedianMS, 3) }},
	{"GB/s", false, func(r *Row) string { return digits(r.GBPS, 1) }},
	{"GOP/s", false, func(r *Row) string { return digits(r.GOPS, 1) }},
	{"t/s", false, func(r *Row) string {
		if r.TokensPerSecond == nil {
			return ""
		}
		return digits(r.TokensPerSecond, 2) + " ± " + digits(r.SD, 2)
	}},
	{"% of roofline", false, func(r *Row) string { return digits(r.RooflinePercent, 1) }},
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func digits(v *float64, decimals int) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', decimals, 64)
}

// Write prints rows in one of Outputs.
func Write(w io.Writer, output string, rows []Row) error { return WriteRows(w, output, columns, rows) }

// WriteRows prints rows of any kind in one of Outputs. Tables have only the columns in which a row says something; csv has all fields, named and written as in JSON.
func WriteRows[R any](w io.Writer, output string, columns []Column[R], rows []R) error {
	switch output {
	case "csv":
		return writeCSV(w, rows)
	case "md":
		return writeMarkdown(w, used(columns, rows), rows)
	case "table":
		return writeTable(w, used(columns, rows), rows)
	}
	return fmt.Errorf("unknown output %q; valid: %s", output, strings.Join(Outputs, ", "))
}

// used are the columns that rows have something in.
func used[R any](columns []Column[R], rows []R) []Column[R] {
	var some []Column[R]
	for _, c := range columns {
		for i := range rows {
			if c.Text(&rows[i]) != "" {
				some = append(some, c)
				break
			}
		}
	}
	return some
}

func writeTable[R any](w io.Writer, columns []Column[R], rows []R) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, c := range columns {
		fmt.Fprintf(t, "%s\t", c.Name)
	}
	fmt.Fprintln(t)
	for i := range rows {
		for _, c := range columns {
			fmt.Fprintf(t, "%s\t", c.Text(&rows[i]))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func writeMarkdown[R any](w io.Writer, columns []Column[R], rows []R) error {
	var b strings.Builder
	for _, c := range columns {
		b.WriteString("| " + c.Name + " ")
	}
	b.WriteString("|\n")
	for _, c := range columns {
		if c.Left {
			b.WriteString("| --- ")
		} else {
			b.WriteString("| ---: ")
		}
	}
	b.WriteString("|\n")
	for i := range rows {
		for _, c := range columns {
			b.WriteString("| " + c.Text(&rows[i]) + " ")
		}
		b.WriteString("|\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCSV takes names and values from the JSON form, so that the two can't differ.
func writeCSV[R any](w io.Writer, rows []R) error {
	out := csv.NewWriter(w)
	names, _, err := fields(*new(R))
	if err != nil {
		return err
	}
	if err := out.Write(names); err != nil {
		return err
	}
	for _, r := range rows {
		_, values, err := fields(r)
		if err != nil {
			return err
		}
		if err := out.Write(values); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// fields are a row's JSON keys in order and their values; null is "".
func fields(r any) (names, values []string, err error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	if _, err := d.Token(); err != nil { // {
		return nil, nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		value, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		names = append(names, fmt.Sprint(name))
		if value == nil {
			value = ""
		}
		values = append(values, fmt.Sprint(value))
	}
	return names, values, nil
}
