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

// column is one column of a table; text is "" where a row has nothing to say.
type column struct {
	name string // as people read it
	left bool   // adjusted
	text func(r *Row) string
}

var columns = []column{
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

// Write prints rows in one of Outputs. Tables have only the columns in which a row says something; csv has all, named and written as in JSON.
func Write(w io.Writer, output string, rows []Row) error {
	switch output {
	case "csv":
		return writeCSV(w, rows)
	case "md":
		return writeMarkdown(w, rows)
	case "table":
		return writeTable(w, rows)
	}
	return fmt.Errorf("unknown output %q; valid: %s", output, strings.Join(Outputs, ", "))
}

// used are the columns that rows have something in.
func used(rows []Row) []column {
	var some []column
	for _, c := range columns {
		for i := range rows {
			if c.text(&rows[i]) != "" {
				some = append(some, c)
				break
			}
		}
	}
	return some
}

func writeTable(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	some := used(rows)
	for _, c := range some {
		fmt.Fprintf(t, "%s\t", c.name)
	}
	fmt.Fprintln(t)
	for i := range rows {
		for _, c := range some {
			fmt.Fprintf(t, "%s\t", c.text(&rows[i]))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func writeMarkdown(w io.Writer, rows []Row) error {
	var b strings.Builder
	some := used(rows)
	for _, c := range some {
		b.WriteString("| " + c.name + " ")
	}
	b.WriteString("|\n")
	for _, c := range some {
		if c.left {
			b.WriteString("| --- ")
		} else {
			b.WriteString("| ---: ")
		}
	}
	b.WriteString("|\n")
	for i := range rows {
		for _, c := range some {
			b.WriteString("| " + c.text(&rows[i]) + " ")
		}
		b.WriteString("|\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCSV takes names and values from the JSON form, so that the two can't differ.
func writeCSV(w io.Writer, rows []Row) error {
	out := csv.NewWriter(w)
	names, _, err := fields(Row{})
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
func fields(r Row) (names, values []string, err error) {
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
