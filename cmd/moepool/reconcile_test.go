//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// What a run counts is what a replay of its recorded traces counts: hits, misses, their bytes, and the bytes that the budget spared, which are
// those that a ghost ledger without the budget would have read, less those that were read.
func TestCountersReconcile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	common := []string{"--model", longModel(t), "--arena-dir", filepath.Join(dir, "arena"), "--raw", "--ignore-eos", "--max-tokens", "48", "--temperature", "1"}
	room := runJSON(t, append(common, demoPrompt)...)
	var experts int64
	for _, w := range room.Workers {
		experts += w.Arena.Bytes
	}
	limit := fmt.Sprint(experts * 2 / 5)
	for i, arguments := range [][]string{
		{"--expert-budget", "off"},
		{"--expert-budget", "count=1", "--eviction", "lru"},
		{"--expert-budget", "count=1", "--workers", "2", "--prefetch", "on"},
		{"--expert-budget", "mass=0.5,fill", "--eviction", "lfu", "--warm", "all"},
		{"--expert-budget", "topp=0.5,fill=6", "--workers", "2", "--warm", "hottest"},
	} {
		t.Run(fmt.Sprint(arguments), func(t *testing.T) {
			trace := filepath.Join(dir, fmt.Sprint("trace", i))
			r := runJSON(t, append(append(common, arguments...), "--resident-limit", limit, "--residency-trace", trace, demoPrompt)...)
			if r.Budget.BytesNotRead == nil {
				t.Fatalf("budget %+v: bytes not read are unknown", r.Budget)
			}
			var sum traceRow
			for _, w := range r.Workers {
				name := trace
				if len(r.Workers) > 1 {
					name += "." + w.ID
				}
				var rows []traceRow
				mustUnmarshal(t, moepool(t, "bench", "--trace", name, "--json", "--eviction", w.Residency.Eviction), &rows)
				if len(rows) != 1 || !rows[0].Recorded || rows[0].GhostBytes == nil || rows[0].BytesNotRead == nil {
					t.Fatalf("replay of %s: %+v", name, rows)
				}
				one, x := rows[0], w.Residency
				if one.Hits != x.Hits || one.Misses != x.Misses || one.MissBytes != x.MissBytes || *one.GhostBytes != x.GhostBytes {
					t.Errorf("worker %s counted %+v, its trace's replay %+v", w.ID, x, one)
				}
				sum.Hits, sum.Misses, sum.MissBytes = sum.Hits+one.Hits, sum.Misses+one.Misses, sum.MissBytes+one.MissBytes
				notRead := *one.BytesNotRead
				if sum.BytesNotRead != nil {
					notRead += *sum.BytesNotRead
				}
				sum.BytesNotRead = &notRead
			}
			e := r.Experts
			if uint64(e.Hits) != sum.Hits || uint64(e.Misses) != sum.Misses || e.MissBytes != sum.MissBytes || *r.Budget.BytesNotRead != *sum.BytesNotRead {
				t.Errorf("the run has %+v and %d bytes not read, the traces' replay %+v and %d", *e, *r.Budget.BytesNotRead, sum, *sum.BytesNotRead)
			}
			if e.Misses == 0 {
				t.Error("nothing was missing: the limit had no effect")
			}
			if off := r.Budget.Policy == "off"; off != (*r.Budget.BytesNotRead == 0) || off != (r.Budget.DroppedExperts == 0) {
				t.Errorf("budget %+v, %d bytes not read", *r.Budget, *r.Budget.BytesNotRead)
			}
			if err := os.Remove(trace); err != nil && len(r.Workers) == 1 {
				t.Error(err)
			}
		})
	}
}
