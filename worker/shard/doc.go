// Package shard loads, holds and computes the expert parts that one worker owns: it packs them from the checkpoint into arenas,
// verifies on which NUMA node their pages lie, and answers work with fixed-point sums whose bits do not depend on threads,
// grouping or residency (DESIGN §2). Under a resident limit it keeps the ledger of what is in memory (package residency) and makes memory
// agree with it. It must not know connections, beats or coordinators.
package shard
