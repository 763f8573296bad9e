package budget

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/coordinator/router"
)

var rewrite = flag.Bool("rewrite", false, "write the results of testdata/scenarios.txt anew")

// scenario is one case of the file.
type scenario struct {
	policy Policy
	batch
}

func TestScenarios(t *testing.T) {
	const path = "testdata/scenarios.txt"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var current *scenario
	cases := 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "case "):
			current = &scenario{batch: batch{resident: map[int32]bool{}, missing: map[int32][]int64{}}}
			cases++
			fmt.Fprintf(&out, "\n%s\n", line)
		case line == "----":
			out.WriteString("----\n" + current.run())
			current = nil
		case current != nil:
			if err := current.read(line); err != nil {
				t.Fatalf("%s: %q: %v", path, line, err)
			}
			out.WriteString(line + "\n")
		case strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
		}
	}
	if cases == 0 || current != nil {
		t.Fatalf("%s has %d cases, the last one cut off: %v", path, cases, current != nil)
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(string(data), out.String()); d != "" && !*rewrite {
		t.Errorf("results differ from %s (-rewrite):\n%s", path, d)
	}
}

func (s *scenario) read(line string) error {
	fields := strings.Fields(line)
	switch fields[0] {
	case "policy":
		p, err := Parse(fields[1])
		if err != nil {
			return err
		}
		s.policy = p
		for _, option := range fields[2:] {
			switch option {
			case "norm":
				s.normalize = true
			case "prefill":
				s.policy.Prefill = true
			case "no-rescue":
				s.policy.Rescue = false
			default:
				return fmt.Errorf("unknown option %q", option)
			}
		}
	case "resident":
		for _, f := range fields[1:] {
			id, err := strconv.Atoi(f)
			if err != nil {
				return err
			}
			s.resident[int32(id)] = true
		}
	case "row":
		phase := slices.Index([]string{"prefill", "decode", "verify"}, fields[1])
		if phase < 0 {
			return fmt.Errorf("unknown phase %q", fields[1])
		}
		row, err := readChoice(fields[2:])
		if err != nil {
			return err
		}
		s.rows, s.phases = append(s.rows, row), append(s.phases, Phase(phase))
		s.candidates = append(s.candidates, router.Choice{})
	case "best": // of the row before: its candidates
		best, err := readChoice(fields[1:])
		if err != nil {
			return err
		}
		s.candidates[len(s.candidates)-1] = best
	case "missing": // an expert, and the bytes that each worker would read
		numbers := make([]int64, len(fields)-1)
		for i, f := range fields[1:] {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return err
			}
			numbers[i] = n
		}
		s.missing[int32(numbers[0])] = numbers[1:]
	default:
		return fmt.Errorf("unknown command %q", fields[0])
	}
	return nil
}

func readChoice(fields []string) (c router.Choice, err error) {
	for _, f := range fields {
		id, weight, _ := strings.Cut(f, ":")
		i, err := strconv.Atoi(id)
		if err != nil {
			return c, err
		}
		w, err := strconv.ParseFloat(weight, 32)
		if err != nil {
			return c, err
		}
		c.Experts, c.Weights = append(c.Experts, int32(i)), append(c.Weights, float32(w))
	}
	return c, nil
}

func (s *scenario) run() string {
	rows, report := s.apply(s.policy)
	var out strings.Builder
	for _, row := range rows {
		out.WriteString("row")
		for j, id := range row.Experts {
			fmt.Fprintf(&out, " %d:%v", id, row.Weights[j])
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "dropped %v, mass %v, rescued rows %d", report.Dropped, report.DroppedMass, report.RescuedRows)
	if s.policy.Fill != 0 {
		fmt.Fprintf(&out, ", filled %v, %d times", report.Filled, report.FilledChoices)
	}
	out.WriteString("\n")
	return out.String()
}
