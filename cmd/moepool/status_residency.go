package main

import (
	"fmt"

	"github.com/moepool/moepool/coordinator/membership"
	"github.com/moepool/moepool/internal/bytesize"
)

// residency tells of the workers whose experts don't all stay in memory.
func (v *statusView) residency() (lines []string) {
	workers := v.status.Members.Workers
	for i := range workers {
		if w := &workers[i]; w.State != membership.StateLost && (w.Residency.Limit > 0 || w.Residency.Evictions > 0 || w.Residency.Misses > 0) {
			lines = append(lines, oneLine(residencyLine(w)))
		}
	}
	return lines
}

// residencyLine is what there is to say of one worker's experts in memory.
func residencyLine(w *membership.WorkerStatus) string {
	r := &w.Residency
	line := fmt.Sprintf("%s: %s of experts in memory", w.ID, bytesize.Text(r.Resident))
	if r.Limit > 0 {
		line += fmt.Sprintf(", at most %s (%s)", bytesize.Text(r.Limit), r.Eviction)
	}
	if n := r.Hits + r.Misses; n > 0 {
		line += fmt.Sprintf("; %.1f %% hits, %s read, %d evictions", 100*float64(r.Hits)/float64(n), bytesize.Text(r.BytesRead), r.Evictions)
	}
	if r.Reclaimed > 0 {
		line += fmt.Sprintf(", %d taken by the kernel", r.Reclaimed)
	}
	if r.Prefetched > 0 {
		line += fmt.Sprintf("; %d prefetched, %.0f %% used", r.Prefetched, 100*float64(r.PrefetchUsed)/float64(r.Prefetched))
	}
	if r.Limit > 0 && r.PrefetchOff {
		line += "; prefetch is off"
	}
	if r.Locked > 0 {
		line += fmt.Sprintf("; %s locked", bytesize.Text(r.Locked))
	}
	return line
}
