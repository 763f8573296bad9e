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
	policy    Policy
	normalize bool
	resident  []int32
	rows      []router.Choice
	phases    []Phase
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
			current = &scenario{}
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
			s.resident = append(s.resident, int32(id))
		}
	case "row":
		phase := slices.Index([]string{"prefill", "decode", "verify"}, fields[1])
		if phase < 0 {
			return fmt.Errorf("unknown phase %q", fields[1])
		}
		var row router.Choice
		for _, f := range fields[2:] {
			id, weight, _ := strings.Cut(f, ":")
			i, err := strconv.Atoi(id)
			if err != nil {
				return err
			}
			w, err := strconv.ParseFloat(weight, 32)
			if err != nil {
				return err
			}
			row.Experts, row.Weights = append(row.Experts, int32(i)), append(row.Weights, float32(w))
		}
		s.rows, s.phases = append(s.rows, row), append(s.phases, Phase(phase))
	default:
		return fmt.Errorf("unknown command %q", fields[0])
	}
	return nil
}

func (s *scenario) run() string {
	report := Apply(s.policy, s.rows, s.phases, func(id int32) bool { return slices.Contains(s.resident, id) }, s.normalize)
	var out strings.Builder
	for _, row := range s.rows {
		out.WriteString("row")
		for j, id := range row.Experts {
			fmt.Fprintf(&out, " %d:%v", id, row.Weights[j])
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "dropped %v, mass %v, rescued rows %d\n", report.Dropped, report.DroppedMass, report.RescuedRows)
	return out.String()
}
