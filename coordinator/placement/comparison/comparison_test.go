package comparison_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/coordinator/placement/comparison"
)

// TestEPLBExample is the example of EPLB's README: 12 experts in 4 groups, 16 replicas, 2 nodes of 4 GPUs each.
func TestEPLBExample(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		weight    []float64
		published []int // physical slot → expert
	}{
		{[]float64{90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86}, []int{5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1}},
		{[]float64{20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27}, []int{7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1}},
	} {
		slots, err := comparison.EPLB(c.weight, 16, 4, 2, 8)
		if err != nil {
			t.Fatal(err)
		}
		var ours, theirs []string
		for gpu, slot := range slots {
			slices.Sort(slot)
			ours = append(ours, fmt.Sprint(slot))
			other := slices.Clone(c.published[2*gpu : 2*gpu+2])
			slices.Sort(other)
			theirs = append(theirs, fmt.Sprint(other))
		}
		// The order of GPUs and of slots on one means nothing.
		slices.Sort(ours)
		slices.Sort(theirs)
		if d := cmp.Diff(theirs, ours); d != "" {
			t.Error(d)
		}
	}
	if _, err := comparison.EPLB(make([]float64, 12), 13, 1, 1, 8); err == nil {
		t.Error("13 replicas on 8 GPUs")
	}
}

func TestTraceFile(t *testing.T) {
	t.Parallel()
	trace := comparison.Zipf(3, 50, 20, 4, 1, 7)
	var file bytes.Buffer
	if err := trace.Write(&file); err != nil {
		t.Fatal(err)
	}
	read, err := comparison.Read(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(trace, read); d != "" {
		t.Fatal(d)
	}
	for name, text := range map[string]string{
		"short":         file.String()[:file.Len()-1],
		"empty":         "",
		"another file":  "hello 1 1 1 1\n",
		"no such":       strings.Replace(file.String(), " 20 4 ", " 3 3 ", 1),
		"too many rows": "moepool-routing-1 20 4 3 2000000000\n",
		"no layers":     "moepool-routing-1 20 4 0 1\n",
		"more than all": "moepool-routing-1 20 21 3 1\n",
	} {
		if _, err := comparison.Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestAgainstOthers: on average over numbers of workers and batch sizes our plans make the slowest worker of recorded and of skewed routing at least as fast as EPLB's, round-robin
// and random ones (docs/placement.md has the figures).
func TestAgainstOthers(t *testing.T) {
	t.Parallel()
	traces := map[string]*comparison.Trace{"Zipf": comparison.Zipf(2, 4096, 128, 8, 1, 3)}
	for _, name := range []string{"demo", "synthetic", "carved"} {
		traces[name] = readTrace(t, name)
	}
	for name, trace := range traces {
		for _, replicas := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/replicas=%v", name, replicas), func(t *testing.T) {
				t.Parallel()
				sums := make([]float64, len(comparison.Planners()))
				for i, p := range comparison.Planners() {
					for _, workers := range []int{4, 16} {
						for _, batch := range []int{1, 8, 64} {
							s, err := comparison.Compare(trace, p, workers, batch, 2048, replicas)
							if err != nil {
								t.Fatal(err)
							}
							sums[i] += s.Time * float64(workers) / 6
						}
					}
				}
				for i, p := range comparison.Planners() {
					t.Logf("%s: the slowest worker takes %.4f of an even spread's time", p.Name, sums[i])
					most := sums[i]
					switch {
					case p.Name != "EPLB":
						most *= 1.01 // with one expert a worker and a replica of each, a ring is hard to beat
					case name == "Zipf":
						most *= 1.005 // without pairs or replicas only chance makes a difference
					}
					if sums[0] > most {
						t.Errorf("%s: %.4f, ours %.4f", p.Name, sums[i], sums[0])
					}
				}
			})
		}
	}
}
