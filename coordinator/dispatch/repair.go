package dispatch

import (
	"slices"
	"strings"

	"github.com/moepool/moepool/transport"
)

// repair finds owners for what has none, and decides what it means if there are none. told says that something has changed that those
// who place experts should know of.
func (j *job) repair(told bool) {
	if j.outcome != going {
		return
	}
	before := len(j.uncovered)
	j.uncovered = j.uncovered[:0]
	ranked := false
	for i := 0; i < len(j.attempts); i++ { // more may come meanwhile
		a := j.attempts[i]
		if a.state != orphan && !(a.state == waiting && a.suspect) {
			continue
		}
		if !ranked {
			j.rankAll()
			ranked = true
		}
		if !j.cover(a) {
			if a.since < 0 {
				a.since = j.passed
			}
			j.uncovered = append(j.uncovered, a.distinct...)
		}
	}
	if len(j.uncovered) == 0 {
		return
	}
	slices.Sort(j.uncovered)
	j.uncovered = slices.Compact(j.uncovered)
	if told || before == 0 {
		j.want(actUncovered, nil)
	}
	j.judge()
	if before == 0 && j.outcome == going {
		j.stats.Waits++
	}
}

// cover gives an attempt's items to workers that can take them. False: some or all of them still have none.
func (j *job) cover(a *attempt) bool {
	if a.state == orphan {
		if !j.takesAny(a, avoided) {
			return false
		}
	} else {
		if !j.takesAll(a, avoided, nobody) {
			return false // partly replaced, its own answer would be worth nothing
		}
		j.forget(a)
	}
	a.state = over
	j.open--
	j.toBest(j.call, a, avoided, nobody)
	if a.number > 0 {
		j.stats.Retries += len(j.made)
	}
	j.send(a)
	return true // what is left is an orphan behind it
}

// judge decides about uncovered parts.
func (j *job) judge() {
	switch j.limits.onMissing {
	case FailMissing:
		if j.reasonsKnown() {
			j.fail(j.missingError())
		}
		return
	case DropMissing:
		if j.passing() {
			break
		}
		if j.anyCovered() {
			j.outcome = lacks
			return
		}
	}
	for _, a := range j.attempts {
		if j.lacking(a) && j.passed-a.since >= j.limits.missing {
			j.fail(j.missingError())
			return
		}
	}
}

// passing says whether nothing is uncovered but what workers that can be used refused a moment ago, or what could not be sent: they may take it
// soon.
func (j *job) passing() bool {
	for _, a := range j.attempts {
		if !j.lacking(a) {
			continue
		}
		if a.worker == nobody || j.view.why[a.worker] != nil {
			return false
		}
		if why := j.causes[a.worker]; !why.ours() && (refusal(why) == "" || j.passed-a.since >= j.limits.grace) {
			return false
		}
	}
	return true
}

// lacking says whether an attempt's items have no worker that can be waited for.
func (j *job) lacking(a *attempt) bool { return a.state == orphan || a.state == waiting && a.suspect }

// anyCovered says whether some expert part of the layer can be computed: without any worker, leaving experts out makes no sense.
func (j *job) anyCovered() bool {
	for part := range j.layer.first {
		if j.takes(uint32(part), avoided, nobody) {
			return true
		}
	}
	return false
}

// reasonsKnown says whether it is known why the owners of uncovered parts can't be used. That nobody listens to a worker is soon followed
// by how its process ended.
func (j *job) reasonsKnown() bool {
	for _, a := range j.attempts {
		if !j.lacking(a) || j.passed-a.since >= j.limits.grace {
			continue
		}
		for _, part := range a.distinct {
			for _, owner := range j.layer.of(part) {
				if w := j.workerError(owner); w != nil && w.Reason == transport.ErrNoWorker.Error() {
					return false
				}
			}
		}
	}
	return true
}

// fail ends the job.
func (j *job) fail(err error) { j.outcome, j.err = failed, err }

// workerError says why a worker can't be used; nil if nothing is known against it.
func (j *job) workerError(worker int32) *WorkerError {
	e := &WorkerError{Worker: j.roster.ids[worker], Layer: j.call.Layer}
	if why := j.causes[worker]; j.troubled && why.reason != "" {
		e.Reason, e.Err = why.reason, why.err
	}
	if int(worker) < len(j.view.why) && j.view.why[worker] != nil {
		why := j.view.why[worker]
		if e.Reason = why.Error(); e.Err == nil {
			e.Err = why
		}
	}
	if e.Reason == "" {
		return nil
	}
	return e
}

// missingError describes the uncovered parts.
func (j *job) missingError() *MissingError {
	e := &MissingError{Layer: j.call.Layer, Missing: len(j.uncovered), Total: len(j.layer.first), Parts: j.parts, Policy: j.limits.onMissing,
		Limit: j.limits.missing}
	var owners []int32
	for _, part := range j.uncovered {
		owners = append(owners, j.layer.of(part)...)
	}
	slices.Sort(owners)
	for _, owner := range slices.Compact(owners) {
		if w := j.workerError(owner); w != nil {
			e.Workers = append(e.Workers, w)
		}
	}
	slices.SortFunc(e.Workers, func(a, b *WorkerError) int { return strings.Compare(a.Worker, b.Worker) })
	return e
}
