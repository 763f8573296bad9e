package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/coordinator/engine"
)

func TestPrefetchReport(t *testing.T) {
	t.Parallel()
	if r := newPrefetchReport(nil); r != nil {
		t.Errorf("without predictions: %+v", r)
	}
	got := newPrefetchReport([]engine.LayerPrediction{
		{Layer: 1, Rows: 4, Mass: 4, Recalled: 2}, {Layer: 3, Rows: 1, Mass: 0}, {Layer: 4, Rows: 12, Mass: 12, Recalled: 12},
	})
	want := &prefetchReport{Recall: 14.0 / 16, Rows: 16, Layers: []prefetchLayersReport{{1, 4, 0.5}, {4, 12, 1}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
