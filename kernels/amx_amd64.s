// Written by hand: see amx_amd64.h.

//go:build !purego

#include "go_asm.h"
#include "textflag.h"
#include "amx_amd64.h"

// func tileStartsAMX(c *tileStarts)
//
// Tiles: 0 sums [rows][1]; 2 codes of a whole group, 3 factors for it; 6 and 7 those of the last group.
TEXT ·tileStartsAMX(SB), NOSPLIT, $0-8
	MOVQ c+0(FP), AX
	MOVQ tileStarts_config(AX), DX
	MOVQ tileStarts_codes(AX), BX
	MOVQ tileStarts_codesRow(AX), R8
	MOVQ tileStarts_starts(AX), R10
	MOVQ tileStarts_tiles(AX), R12
	MOVQ $4, R11
	MOVQ tileStarts_factors(AX), DI
	LDTILECFG(rDX)
	TILELOADD(rDI, r11, 3)
	TILELOADD(rDI, r11, 7)

tile:
	MOVQ BX, SI
	MOVQ R10, DI
	MOVQ tileStarts_groups(AX), CX
	JMP  next

whole:
	TILEZERO(0)
	TILELOADD(rSI, r8, 2)
	TDPBSSD(3, 2, 0)
	TILESTORED(0, rDI, r11)
	ADDQ tileStarts_codesStep(AX), SI
	ADDQ $64, DI

next:
	DECQ CX
	JNZ  whole
	TILEZERO(0)
	TILELOADD(rSI, r8, 6)
	TDPBSSD(7, 6, 0)
	TILESTORED(0, rDI, r11)
	ADDQ $const_tileStartBytes, R10
	MOVQ R8, SI
	SHLQ $4, SI
	ADDQ SI, BX
	DECQ R12
	JNZ  tile
	TILERELEASE
	RET

// The sum of one row: from its int32 dot products of a group, Z16, to its float32 sums, acc.
#define ADD_ROW(r, dots, acc) \
	VMOVDQA32     (64*r)(dots), Z16                  \
	VPADDD.BCST   (4*r)(DX), Z16, Z16                \
	VMULPS.BCST   (const_tileScaleRowBytes*r)(BX), Z31, Z17 \
	VCVTDQ2PS     Z16, Z16                           \
	VFMADD231PS   Z17, Z16, acc

// The sums of all rows of a tile, four at a time: those beyond the last row are of what lies in the memory of other rows, and
// are never stored.
#define ADD_GROUP(dots, ended) \
	VPMOVZXWD (R13), Z31        \
	VPSLLD    $16, Z31, Z31     \
	ADD_ROW(0, dots, Z0)        \
	ADD_ROW(1, dots, Z1)        \
	ADD_ROW(2, dots, Z2)        \
	ADD_ROW(3, dots, Z3)        \
	CMPQ      tileProducts_rows(AX), $4 \
	JLE       ended             \
	ADD_ROW(4, dots, Z4)        \
	ADD_ROW(5, dots, Z5)        \
	ADD_ROW(6, dots, Z6)        \
	ADD_ROW(7, dots, Z7)        \
	CMPQ      tileProducts_rows(AX), $8 \
	JLE       ended             \
	ADD_ROW(8, dots, Z8)        \
	ADD_ROW(9, dots, Z9)        \
	ADD_ROW(10, dots, Z10)      \
	ADD_ROW(11, dots, Z11)      \
	CMPQ      tileProducts_rows(AX), $12 \
	JLE       ended             \
	ADD_ROW(12, dots, Z12)      \
	ADD_ROW(13, dots, Z13)      \
	ADD_ROW(14, dots, Z14)      \
	ADD_ROW(15, dots, Z15)      \
ended: \
	ADDQ tileProducts_scaleStep(AX), R13 \
	ADDQ $64, DX                \
	ADDQ $4, BX

// The dot products of one group: codes at SI, weights at DI.
#define DOTS(codes, weights, sums, dots) \
	TILEZERO(sums)                 \
	TILELOADD(rSI, r8, codes)      \
	TILELOADD(rDI, r9, weights)    \
	TDPBSUD(weights, codes, sums)  \
	TILESTORED(sums, dots, r11)

#define NEXT_GROUP \
	ADDQ tileProducts_codesStep(AX), SI \
	ADDQ tileProducts_weightStep(AX), DI

// A piece of the weights that come next is brought near.
#define PREFETCH(again) \
	MOVQ tileProducts_aheadLines(AX), R12 \
again: \
	PREFETCHT1 (R15)   \
	ADDQ       $64, R15 \
	DECQ       R12     \
	JNZ        again

#define LOAD_ROW(r, acc, ended) \
	CMPQ      tileProducts_rows(AX), $r \
	JLE       ended             \
	VMOVUPS.Z (R12), K1, acc    \
	ADDQ      R13, R12

#define STORE_ROW(r, acc, ended) \
	CMPQ      tileProducts_rows(AX), $r \
	JLE       ended             \
	VMOVUPS   acc, K2, (R12)    \
	ADDQ      R13, R12

// func tileProductsAMX(c *tileProducts)
//
// Tiles: 0 and 1 dot products, of one group after the other in turn; 2 codes and 3 weights for 0, 4 and 5 for 1; 6 and 7 those of the
// last group. While the dot products of one group are added to the sums in Z0-Z15, those of the next are on their way.
TEXT ·tileProductsAMX(SB), NOSPLIT, $0-8
	MOVQ  c+0(FP), AX
	MOVQ  tileProducts_config(AX), DX
	LDTILECFG(rDX)
	MOVQ  tileProducts_codesRow(AX), R8
	MOVQ  $128, R9
	MOVQ  tileProducts_dots(AX), R10
	MOVQ  $64, R11
	MOVQ  tileProducts_ahead(AX), R15

half:
	MOVL  tileProducts_load(AX), CX
	KMOVW CX, K1
	MOVL  tileProducts_store(AX), CX
	KMOVW CX, K2
	MOVQ  $0, tileProducts_tile(AX)

tile:
	// Where this tile's rows are.
	MOVQ  tileProducts_tile(AX), CX
	MOVQ  R8, SI
	IMULQ CX, SI
	SHLQ  $4, SI
	ADDQ  tileProducts_codes(AX), SI
	MOVQ  CX, DX
	IMULQ $const_tileStartBytes, DX
	ADDQ  tileProducts_starts(AX), DX
	MOVQ  CX, BX
	IMULQ $(16*const_tileScaleRowBytes), BX
	ADDQ  tileProducts_scales(AX), BX
	MOVQ  tileProducts_accRow(AX), R13
	MOVQ  R13, R12
	IMULQ CX, R12
	SHLQ  $4, R12
	ADDQ  tileProducts_acc(AX), R12

	LOAD_ROW(0, Z0, loaded)
	LOAD_ROW(1, Z1, loaded)
	LOAD_ROW(2, Z2, loaded)
	LOAD_ROW(3, Z3, loaded)
	LOAD_ROW(4, Z4, loaded)
	LOAD_ROW(5, Z5, loaded)
	LOAD_ROW(6, Z6, loaded)
	LOAD_ROW(7, Z7, loaded)
	LOAD_ROW(8, Z8, loaded)
	LOAD_ROW(9, Z9, loaded)
	LOAD_ROW(10, Z10, loaded)
	LOAD_ROW(11, Z11, loaded)
	LOAD_ROW(12, Z12, loaded)
	LOAD_ROW(13, Z13, loaded)
	LOAD_ROW(14, Z14, loaded)
	LOAD_ROW(15, Z15, loaded)

loaded:
	MOVQ tileProducts_weights(AX), DI
	MOVQ tileProducts_weightScales(AX), R13
	MOVQ tileProducts_groups(AX), CX        // groups that have not been started

	DECQ CX
	JZ   firstIsLast
	DOTS(2, 3, 0, r10)
	NEXT_GROUP
	JMP  even

firstIsLast:
	DOTS(6, 7, 0, r10)

even: // the dot products of a group are in the first buffer
	DECQ CX
	JLT  addEven
	JZ   evenLast
	ADDQ $1024, R10
	DOTS(4, 5, 1, r10)
	SUBQ $1024, R10
	NEXT_GROUP
	JMP  addEven

evenLast:
	ADDQ $1024, R10
	DOTS(6, 7, 1, r10)
	SUBQ $1024, R10

addEven:
	PREFETCH(prefetchEven)
	ADD_GROUP(R10, addedEven)
	TESTQ CX, CX
	JLT   store

	// and now in the second one
	DECQ CX
	JLT  addOdd
	JZ   oddLast
	DOTS(2, 3, 0, r10)
	NEXT_GROUP
	JMP  addOdd

oddLast:
	DOTS(6, 7, 0, r10)

addOdd:
	PREFETCH(prefetchOdd)
	ADDQ $1024, R10
	ADD_GROUP(R10, addedOdd)
	SUBQ $1024, R10
	TESTQ CX, CX
	JGE   even

store:
	MOVQ  tileProducts_accRow(AX), R13
	MOVQ  tileProducts_tile(AX), CX
	MOVQ  R13, R12
	IMULQ CX, R12
	SHLQ  $4, R12
	ADDQ  tileProducts_acc(AX), R12
	STORE_ROW(0, Z0, stored)
	STORE_ROW(1, Z1, stored)
	STORE_ROW(2, Z2, stored)
	STORE_ROW(3, Z3, stored)
	STORE_ROW(4, Z4, stored)
	STORE_ROW(5, Z5, stored)
	STORE_ROW(6, Z6, stored)
	STORE_ROW(7, Z7, stored)
	STORE_ROW(8, Z8, stored)
	STORE_ROW(9, Z9, stored)
	STORE_ROW(10, Z10, stored)
	STORE_ROW(11, Z11, stored)
	STORE_ROW(12, Z12, stored)
	STORE_ROW(13, Z13, stored)
	STORE_ROW(14, Z14, stored)
	STORE_ROW(15, Z15, stored)

stored:
	INCQ CX
	MOVQ CX, tileProducts_tile(AX)
	CMPQ CX, tileProducts_tiles(AX)
	JLT  tile

	// The other 16 outputs of the block, if there are any.
	SHRL $16, tileProducts_load(AX)
	SHRL $16, tileProducts_store(AX)
	CMPL tileProducts_store(AX), $0
	JEQ  done
	ADDQ $64, tileProducts_acc(AX)
	ADDQ $64, tileProducts_weights(AX)
	ADDQ $32, tileProducts_weightScales(AX)
	JMP  half

done:
	TILERELEASE
	VZEROUPPER
	RET

// func unpackQ4AVX512(dst, src *byte, pairs int)
//
// A pair of quads is 128 bytes: the lower four bits of each are the first quad's codes, the upper ones the second's.
TEXT ·unpackQ4AVX512(SB), NOSPLIT, $0-24
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         pairs+16(FP), CX
	MOVL         $0x0f0f0f0f, AX
	VPBROADCASTD AX, Z31

pair:
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VPSRLW    $4, Z0, Z2
	VPSRLW    $4, Z1, Z3
	VPANDD    Z31, Z0, Z0
	VPANDD    Z31, Z1, Z1
	VPANDD    Z31, Z2, Z2
	VPANDD    Z31, Z3, Z3
	VMOVDQU64 Z0, (DI)
	VMOVDQU64 Z1, 64(DI)
	VMOVDQU64 Z2, 128(DI)
	VMOVDQU64 Z3, 192(DI)
	ADDQ      $128, SI
	ADDQ      $256, DI
	DECQ      CX
	JNZ       pair
	VZEROUPPER
	RET
