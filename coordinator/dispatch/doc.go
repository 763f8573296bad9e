// Package dispatch sends a layer's routed rows to the workers that own the experts, and gathers their sums. It owns the splitting
// of rows by owner, the waiting with its deadlines, and what is counted on the way. It must not know how experts are computed,
// nor who decides on the placement.
//
// What decides is pure: split.go says which rows and expert parts go to whom, wait.go what replies and passing time mean.
// Dispatcher.Compute drives both; it starts no goroutine, the one that computes the step waits itself.
package dispatch
