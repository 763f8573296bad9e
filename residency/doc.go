// Package residency keeps the account of which expert parts are in memory under a byte limit (Ledger), decides which ones leave (Policy), and records and replays what
// a ledger was asked (Recorder, Replay). A worker keeps a ledger for its arenas; `moepool bench --trace` runs the same code over a recorded trace.
//
// It is pure: the same history gives the same answers, on every machine. It must not know clocks, files, threads, or what a part's bytes mean, and it imports nothing of
// the project.
package residency
