// Package coordinator owns the running model of one cluster: it opens a checkpoint, packs the dense weights, waits for
// workers, and answers requests one after the other. The parts live in sub-packages (engine, dispatch, membership,
// generation, ...); this package only puts them together. It must not know mappings, NUMA calls or instruction sets.
package coordinator
