package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Text prints the report for people: a line for each finding, what to change below it, and a summary.
func (r *Report) Text(w io.Writer) error {
	width := 0
	for _, f := range r.Findings {
		width = max(width, len(f.Subject))
	}
	var text strings.Builder
	section := ""
	for i, f := range r.Findings {
		if f.Section != section {
			if section != "" {
				text.WriteByte('\n')
			}
			section = f.Section
			fmt.Fprintln(&text, strings.ToUpper(section))
		}
		level := string(f.Level)
		if f.Level == Fail {
			level = "FAIL"
		}
		fmt.Fprintf(&text, "  %-4s  %-*s  %s\n", level, width, f.Subject, f.Text)
		// Once below several lines that one change mends.
		if f.Fix != "" && (i+1 == len(r.Findings) || r.Findings[i+1].Fix != f.Fix) {
			fmt.Fprintf(&text, "  %-4s  %-*s  change: %s\n", "", width, "", f.Fix)
		}
	}
	fmt.Fprintf(&text, "\n%s\n", r.summary())
	_, err := io.WriteString(w, text.String())
	return err
}

func (r *Report) summary() string {
	failures, warnings := r.count(Fail), r.count(Warn)
	switch {
	case failures > 0 && warnings > 0:
		return fmt.Sprintf("%s would fail, %s.", count(failures, "thing"), count(warnings, "warning"))
	case failures > 0:
		return fmt.Sprintf("%s would fail.", count(failures, "thing"))
	case warnings > 0:
		return fmt.Sprintf("Nothing would fail, %s.", count(warnings, "warning"))
	}
	return "All is well."
}
