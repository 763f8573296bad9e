// Package kernels owns the arithmetic on packed weights: weight formats, packing, matrix products, activations,
// normalisation, rotary embedding, attention blocks, and the choice of an implementation for this CPU.
//
// It knows nothing of files, networks or models.
//
// # The same bits everywhere
//
// Every implementation gives the same bits as the plain Go reference, the set "generic" (DESIGN §2): the order of operations
// of each output element is part of a function's contract, the shape of tiles and the number of rows are not. The contract:
//
//   - Quantised products. Activations have one float32 scale per row and group of 64 columns, maxabs/127, and codes
//     round-half-even(x/scale). For each output: acc = 0, then for each group in ascending order
//     acc = FMA(float32(dot), activation scale · weight scale, acc), where dot is the exact integer sum of code products.
//     Weight groups that are smaller than 64 columns (q4, mxfp4: 32) have an FMA each, with the activation scale of the group of
//     64 that they lie in. mxfp4: dot is the one with twice the values of the codes, the weight scale half of the e8m0 one.
//   - Float products. For each output: total = 0; for each panel of 256 columns in ascending order, acc = 0, then
//     acc = FMA(x, w, acc) for each column of the panel in ascending order, then total = total + acc.
//   - fp8 products. The same, without a scale, in each group of 128 columns; then total = FMA(acc, scale, total).
//   - Attention: see Set.AttendBlock and Set.MergeAttention.
//   - Sums over a vector (RMSNorm): 16 lanes, the vector padded with zeros to a multiple of 16; lane j takes the
//     elements ≡ j mod 16 in ascending order, lane = FMA(a, b, lane); lanes are added by halves: j and j+8, j and j+4,
//     j and j+2, j and j+1.
//   - Exp is one polynomial, the same operations in each implementation (see Exp).
//   - Everything else rounds after each operation, except where FMA is written.
//
// # Denormals, infinities, NaN
//
// Denormal numbers are kept everywhere (no flush to zero), with two exceptions: Exp gives 0 where the result would be
// denormal, and a quantisation scale that would be denormal is 0, as are its codes.
//
// Prepare refuses rows with an infinity or a NaN, and Pack refuses such weights. Finite values may still overflow inside a
// product: infinities and NaNs then come out as IEEE 754 says and the next Prepare or Accumulate reports them. Which of the
// many NaN bit patterns comes out is not part of the contract; that it is a NaN is.
package kernels
