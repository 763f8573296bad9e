package dispatch

import (
	"time"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/transport"
)

// drop takes the experts out of a call that no worker holds, as a budget drops experts (DESIGN §7), and makes the call as it was before
// anything was added.
func (d *Dispatcher) drop(call *engine.ExpertCall, stats *engine.ExpertStats) {
	missing := make([]bool, len(d.job.layer.first)/d.o.Parts)
	for _, part := range d.job.uncovered {
		missing[int(part)/d.o.Parts] = true
	}
	report, emptied := budget.Remove(call.Choices, missing, d.o.Normalize)
	stats.DroppedParts += report.DroppedExperts * d.o.Parts
	stats.MissingMass += report.DroppedMass
	stats.EmptyRows += emptied
	if text := d.job.missingError().state(); text != d.dropped {
		d.dropped = text
		d.o.Log("warning: %s: they are left out (--on-missing drop)", text)
	}
	clear(call.Sum)
	for row := range d.failedBy {
		if d.failedBy[row].code != transport.RowOK {
			call.RowErr[row] = nil
		}
	}
	d.failedBy = d.failedBy[:0]
	d.look(time.Now())
}
