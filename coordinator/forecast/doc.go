// Package forecast owns predictions: what a model needs of hosts that may not be there yet, and how fast it would run on them. It places the
// experts with package placement itself, draws routing at random, and adds up bytes and latencies. It must not know how any of it
// is done: no files, no network, no clock.
//
// A step of B decoded rows costs, one after another: the dense weights and the KV cache, read by the coordinator at its hosts' bandwidth; and
// for each layer with experts the slowest worker, which is its round trip, its bytes on the network, the coordinator's own work for
// each worker that is asked, and the expert parts that the rows chose of it, at the speed of its memory or its multiply-add units,
// whichever takes longer, and at the speed of its disk for the share that does not fit into its memory.
package forecast
