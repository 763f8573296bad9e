// Package worker is the process that holds expert parts and computes them: it registers with a coordinator by beats, takes an
// assignment, loads its shards (worker/shard), serves work, and drains. It must not know attention, tokens or text.
package worker
