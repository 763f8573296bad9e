package budget

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/moepool/moepool/coordinator/router"
)

type goldenCase struct {
	Note      string      `json:"note"`
	Normalize bool        `json:"norm_topk_prob"`
	IDs       [][]int32   `json:"ids"`
	Weights   [][]float32 `json:"weights"`
	Resident  []int32     `json:"resident"`
	Budget    int         `json:"budget"`
	OutIDs    [][]int32   `json:"out_ids"`
	OutWeight [][]float64 `json:"out_weights"`
	Dropped   []int32     `json:"dropped"`
	Distinct  int         `json:"distinct"`
}

// The golden cases are the plain rule: every row governed, nothing rescued.
func TestGolden(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../testdata/tiny/qwen3_moe/golden_budget.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []goldenCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 40 {
		t.Fatalf("%d cases, want 40", len(file.Cases))
	}
	for _, c := range file.Cases {
		t.Run(c.Note, func(t *testing.T) {
			t.Parallel()
			checkGolden(t, c)
		})
	}
}

func checkGolden(t *testing.T, c goldenCase) {
	rows := make([]router.Choice, len(c.IDs))
	for i := range rows {
		rows[i] = router.Choice{Experts: slices.Clone(c.IDs[i]), Weights: slices.Clone(c.Weights[i])}
	}
	phases := make([]Phase, len(rows))
	for i := range phases {
		phases[i] = Phase(i % 3) // all are governed
	}
	b := &batch{rows: rows, phases: phases, resident: map[int32]bool{}, normalize: c.Normalize}
	for _, id := range c.Resident {
		b.resident[id] = true
	}
	rows, report := b.apply(Policy{Count: c.Budget, Prefill: true})

	if !slices.Equal(report.Dropped, c.Dropped) || report.DroppedExperts != len(c.Dropped) {
		t.Errorf("dropped %d: %v, want %v", report.DroppedExperts, report.Dropped, c.Dropped)
	}
	var mass float64
	for i, row := range rows {
		if !slices.Equal(row.Experts, c.OutIDs[i]) {
			t.Errorf("row %d has experts %v, want %v", i, row.Experts, c.OutIDs[i])
			continue
		}
		for j, w := range row.Weights {
			if math.Abs(float64(w)-c.OutWeight[i][j]) > 1e-6 {
				t.Errorf("row %d expert %d has weight %v, want %v", i, row.Experts[j], w, c.OutWeight[i][j])
			}
		}
		for j, id := range c.IDs[i] {
			if slices.Contains(c.Dropped, id) {
				mass += float64(c.Weights[i][j])
			}
		}
	}
	if math.Abs(report.DroppedMass-mass) > 1e-9 || report.RescuedRows != 0 {
		t.Errorf("dropped mass %v and %d rescued rows, want %v and 0", report.DroppedMass, report.RescuedRows, mass)
	}
}
