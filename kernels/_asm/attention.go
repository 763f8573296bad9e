package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// kvFormat is how the product of attention reads outputs of one column: 8h to 8h+7 and 16+8h to 16+8h+7 of its 32.
type kvFormat struct {
	name        string
	columnBytes int
	load        func(column Mem, h int) [2]VecVirtual
}

var kvFormats = []kvFormat{
	{"F32", 4 * blockOutputs, func(m Mem, h int) (w [2]VecVirtual) {
		for v := range w {
			w[v] = YMM()
			VMOVUPS(m.Offset(64*v+32*h), w[v])
		}
		return w
	}},
	// Outputs 0 to 15 are the lower halves of words, 16 to 31 the upper ones.
	{"BF16", 2 * blockOutputs, func(m Mem, h int) [2]VecVirtual {
		low, high := YMM(), YMM()
		VMOVDQU(m.Offset(32*h), high)
		VPSLLD(Imm(16), high, low)
		VPAND(repeat32("upperHalves", 0xffff0000), high, high)
		return [2]VecVirtual{low, high}
	}},
	{"Int8", blockOutputs, func(m Mem, h int) (w [2]VecVirtual) {
		for v := range w {
			w[v] = YMM()
			VPMOVSXBD(m.Offset(16*v+8*h), w[v])
			VCVTDQ2PS(w[v], w[v])
		}
		return w
	}},
}

// kvProduct emits the product of rows with the tiles of a KV block: rows x 16 sums stay in registers, for each half of a tile.
func kvProduct(f kvFormat, rows int) {
	name := fmt.Sprintf("kvProduct%sRows%dAVX2", f.name, rows)
	function(name, "func(dst *float32, stride int, x **float32, columns, tiles int, weights *byte, skip, ahead int)",
		name+fmt.Sprintf(" stores the products of rows (%d), whose pointers are x, with tiles ≥ 1 of 32 outputs each: one FMA for", rows),
		"each of columns ≥ 1. Rows of dst are stride bytes apart; skip bytes lie between the columns of one tile and the next. The lines that",
		"are ahead bytes behind those read are prefetched.")
	dst, array, tiles, ahead := pointer("dst"), pointer("x"), pointer("tiles"), pointer("ahead")
	offset, start, weights, target := pointer("columns"), pointer("weights"), GP64(), GP64()
	SHLQ(Imm(2), offset)
	x := make([]Register, rows)
	for r := range x {
		x[r] = GP64()
		MOVQ(Mem{Base: array, Disp: 8 * r}, x[r])
		ADDQ(offset, x[r])
	}
	sums := make([][2]VecVirtual, rows)
	for r := range sums {
		sums[r] = [2]VecVirtual{YMM(), YMM()}
	}

	Label("tile")
	for h := range 2 {
		column := func(i int) {
			w := f.load(Mem{Base: weights, Disp: i * f.columnBytes}, h)
			for r := range sums {
				value := YMM()
				VBROADCASTSS(Mem{Base: x[r], Index: offset, Scale: 1, Disp: 4 * i}, value)
				for v := range w {
					VFMADD231PS(w[v], value, sums[r][v])
				}
			}
		}
		advance := func(n int) {
			ADDQ(U32(uint32(n*f.columnBytes)), weights)
			ADDQ(Imm(uint64(4*n)), offset)
		}
		label := func(name string) string { return fmt.Sprintf("%s%d", name, h) }

		MOVQ(start, weights)
		Load(Param("columns"), offset)
		SHLQ(Imm(2), offset)
		NEGQ(offset)
		for r := range sums {
			for _, sum := range sums[r] {
				VXORPS(sum, sum, sum)
			}
		}
		Label(label("four"))
		CMPQ(offset, I32(-16))
		JG(LabelRef(label("rest")))
		for i := range 4 {
			column(i)
			for line := 0; line < f.columnBytes && h == 0; line += 64 {
				if i*f.columnBytes%64 == 0 {
					PREFETCHT0(Mem{Base: weights, Index: ahead, Scale: 1, Disp: i*f.columnBytes + line})
				}
			}
		}
		advance(4)
		JMP(LabelRef(label("four")))
		Label(label("rest"))
		TESTQ(offset, offset)
		JZ(LabelRef(label("store")))
		Label(label("one"))
		column(0)
		advance(1)
		JNZ(LabelRef(label("one")))

		Label(label("store"))
		MOVQ(dst, target)
		for r := range sums {
			for v, sum := range sums[r] {
				VMOVUPS(sum, Mem{Base: target, Disp: 64*v + 32*h})
			}
			if r < rows-1 {
				ADDQ(parameter("stride"), target)
			}
		}
	}
	MOVQ(weights, start)
	ADDQ(parameter("skip"), start)
	ADDQ(U32(4*blockOutputs), dst)
	DECQ(tiles)
	JNZ(LabelRef("tile"))
	finish()
}

// parameter is a parameter in memory. Load would use an SSE instruction, which behind those of AVX costs some 500 cycles.
func parameter(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

func numbersToEight() Mem {
	return constant("numbersToEight", func() {
		for i := range 8 {
			DATA(4*i, U32(uint32(i)))
		}
	})
}

// lowestOf reduces eight lanes by halves with an operation; the result is in the lowest lane.
func lowestOf(v VecVirtual, operation func(a, b, dst Op)) VecVirtual {
	half, swapped := XMM(), XMM()
	VEXTRACTF128(Imm(1), v, half)
	operation(half, v.AsX(), half)
	VPERMILPS(Imm(0x4e), half, swapped)
	operation(swapped, half, half)
	VPERMILPS(Imm(0xb1), half, swapped)
	operation(swapped, half, half)
	return half
}

// kvSoftmax goes over a row's 64 scores twice, 16 at a time.
func kvSoftmax() {
	function("kvSoftmaxAVX2", "func(p *float32, from, to *int32, most, sum *float32, rows int, scale float32, keyScales, valueScales *float32)",
		"kvSoftmaxAVX2 makes weights of rows ≥ 1 of 64 products each: score = p·scale, the largest, Exp(score - largest) and its sum in 16",
		"lanes, of the keys [from, to) (others give 0). If keyScales and valueScales are not nil, products are multiplied by the former first,",
		"and weights by the latter last.")
	p, from, to, most, sum, rows := pointer("p"), pointer("from"), pointer("to"), pointer("most"), pointer("sum"), pointer("rows")
	keyScales, valueScales, offset := pointer("keyScales"), pointer("valueScales"), GP64()
	// seen gives the mask of the keys from number on that lie in [first, end).
	seen := func(number, first, end VecVirtual) VecVirtual {
		below, mask := YMM(), YMM()
		VPCMPGTD(number, first, below)
		VPCMPGTD(number, end, mask)
		VPANDN(mask, below, mask)
		return mask
	}
	next := func(number VecVirtual) { VPADDD(loadYMM(repeat32("eights", 8)), number, number) }
	bounds := func() (first, end, number VecVirtual) {
		first, end, number = YMM(), YMM(), YMM()
		VPBROADCASTD(Mem{Base: from}, first)
		VPBROADCASTD(Mem{Base: to}, end)
		VMOVDQU(numbersToEight(), number)
		return first, end, number
	}

	Label("row")
	first, end, number := bounds()
	scale := broadcast("scale")
	largest := loadYMM(repeat32("minusInfinity", 0xff800000))
	XORQ(offset, offset)
	Label("score")
	{
		score := YMM()
		VMOVUPS(Mem{Base: p, Index: offset, Scale: 1}, score)
		TESTQ(keyScales, keyScales)
		JZ(LabelRef("scale"))
		VMULPS(Mem{Base: keyScales, Index: offset, Scale: 1}, score, score)
		Label("scale")
		VMULPS(scale, score, score)
		VMOVUPS(score, Mem{Base: p, Index: offset, Scale: 1})
		VBLENDVPS(seen(number, first, end), score, loadYMM(repeat32("minusInfinity", 0xff800000)), score)
		VMAXPS(largest, score, largest) // largest, if the score is a NaN
		next(number)
		ADDQ(Imm(32), offset)
		CMPQ(offset, U32(256))
		JNE(LabelRef("score"))
	}
	top := lowestOf(largest, func(a, b, dst Op) { VMAXPS(a, b, dst) })
	zeros := YMM()
	VXORPS(zeros, zeros, zeros)
	VADDPS(zeros.AsX(), top, top) // no -0
	VMOVSS(top, Mem{Base: most})
	VBROADCASTSS(top, largest)

	first, end, number = bounds()
	totals := [2]VecVirtual{YMM(), YMM()}
	for _, total := range totals {
		VXORPS(total, total, total)
	}
	XORQ(offset, offset)
	Label("weight")
	for i, total := range totals {
		at := Mem{Base: p, Index: offset, Scale: 1, Disp: 32 * i}
		score := YMM()
		VMOVUPS(at, score)
		VSUBPS(largest, score, score)
		e := exp(score)
		VANDPS(seen(number, first, end), e, e)
		VADDPS(e, total, total)
		TESTQ(valueScales, valueScales)
		stored := fmt.Sprintf("store%d", i)
		JZ(LabelRef(stored))
		VMULPS(Mem{Base: valueScales, Index: offset, Scale: 1, Disp: 32 * i}, e, e)
		Label(stored)
		VMOVUPS(e, at)
		next(number)
	}
	ADDQ(Imm(64), offset)
	CMPQ(offset, U32(256))
	JNE(LabelRef("weight"))
	VADDPS(totals[1], totals[0], totals[0])
	VMOVSS(lowestOf(totals[0], func(a, b, dst Op) { VADDPS(a, b, dst) }), Mem{Base: sum})

	advance(4, from, to, most, sum)
	ADDQ(U32(256), p)
	DECQ(rows)
	JNZ(LabelRef("row"))
	finish()
}

func mergeFactors() {
	function("mergeFactorsAVX2", "func(most, sum, laterMost, laterSum, factor, laterFactor *float32)",
		"mergeFactorsAVX2 folds the maxima and sums of eight later results into eight earlier ones and stores the factors of their outputs.")
	most, sum, laterMost, laterSum := pointer("most"), pointer("sum"), pointer("laterMost"), pointer("laterSum")
	factor, laterFactor := pointer("factor"), pointer("laterFactor")
	m1, m2, m, a, b := load(most, 0), load(laterMost, 0), YMM(), YMM(), YMM()
	VMAXPS(m1, m2, m) // the earlier one, if one is a NaN
	VSUBPS(m, m1, a)
	VSUBPS(m, m2, b)
	VMOVUPS(m, Mem{Base: most})
	a = exp(a)
	VMOVUPS(a, Mem{Base: factor})
	total := YMM()
	VMULPS(Mem{Base: sum}, a, total)
	b = exp(b)
	VMOVUPS(b, Mem{Base: laterFactor})
	VFMADD231PS(Mem{Base: laterSum}, b, total)
	VMOVUPS(total, Mem{Base: sum})
	finish()
}
