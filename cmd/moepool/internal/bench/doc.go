// Package bench measures: what the machine can do at most (memory bandwidth, multiply-adds), and how far kernels, a layer of experts and
// a whole model come near that. It owns the measuring loops, the statistics and the tables; it must not know flags, and it computes
// with the same code as a worker does.
//
// Figures are of the fastest repetition, since others' work on the machine only ever adds time; the median says how steady it was. One
// GB is 10^9 bytes, and a multiply and an add are two operations.
package bench
