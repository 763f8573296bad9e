// Package kernels owns the arithmetic on packed weights: weight formats, packing, matrix products, activations,
// normalisation, rotary embedding, attention blocks, and the choice of an implementation for this CPU.
//
// Every implementation gives the same bits as the plain Go reference (DESIGN §2): the order of operations of each
// output element is part of a function's contract, the shape of tiles and the number of rows are not.
//
// It knows nothing of files, networks or models.
package kernels
