// Package dispatch sends a layer's routed rows to the workers that own the experts, and gathers their sums. It owns the splitting
// of rows by owner, the waiting with its deadlines, what is done when workers fail or are late, and what is counted on the way. It must not
// know how experts are computed, nor who decides on the placement.
//
// What decides is pure: a job (job.go, hedge.go, repair.go) takes answers, failures, views of the cluster and passing time, and wants work
// sent, results added and attempts forgotten; split.go says which items go to whom. Dispatcher (dispatch.go, run.go) drives it; it starts no
// goroutine, the one that computes the step waits itself.
//
// An item is one expert part of one row. Work that is sent is an attempt: some items, one worker, a request number of its own. Each item is
// with exactly one attempt until it is counted, and perhaps with one more that hedges it. So a sum holds it exactly once, whatever fails:
//
//   - An attempt that was refused, or whose worker is gone, is over; its items go to other owners, of the newest plan, split as needed.
//   - One whose worker is lost or silent is replaced as soon as others can take all of it; until then its answer still counts.
//   - One that is late (by its worker's own latencies) is hedged, if others own all of it: they are asked for the same items, and their
//     answers are kept apart until all have come. Whichever side is complete first counts, the other one is dropped.
//   - Items that nobody can take wait (or the call fails, or the layer is computed without them: OnMissing).
package dispatch
