package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const panelColumns = 256

// floatFormat is how a float kernel reads the 32 weights of a column.
type floatFormat struct {
	name         string
	columnBytes  int
	panelColumns int
	scaled       bool                          // a panel begins with 32 float32 scales
	load         func(m Mem, v int) VecVirtual // weights 8v to 8v+7 of the column at m
}

var f32 = floatFormat{"f32", 4 * blockOutputs, panelColumns, false, func(m Mem, v int) VecVirtual {
	w := YMM()
	VMOVUPS(m.Offset(32*v), w)
	return w
}}

var bf16 = floatFormat{"bf16", 2 * blockOutputs, panelColumns, false, func(m Mem, v int) VecVirtual {
	return weightScales(m.Offset(16 * v)) // weights are widened as scales are
}}

// fp8 weights are e4m3 bytes: moved to where a float32 has sign, exponent and fraction, they are 2^120 too small (denormal ones too).
var fp8 = floatFormat{"fp8", blockOutputs, 128, true, func(m Mem, v int) VecVirtual {
	w := YMM()
	VPMOVZXBD(m.Offset(8*v), w)
	VPSLLD(Imm(24), w, w)
	VPSRAD(Imm(4), w, w)
	VPAND(repeat32("e4m3Mask", 0x87f00000), w, w)
	VMULPS(repeat32("e4m3Unbias", (127+120)<<23), w, w)
	return w
}}

// float emits the kernel of a format for a number of rows: rows x 32 sums stay in registers for a panel.
func float(f floatFormat, rows int) {
	name := fmt.Sprintf("%sRows%dAVX2", f.name, rows)
	signature := "func(acc *float32"
	if rows > 1 {
		signature += ", stride int"
	}
	signature += ", weights *byte"
	for r := range rows {
		signature += fmt.Sprintf(", x%d *float32", r)
	}
	TEXT(name, NOSPLIT, signature+", columns int)")
	Doc(name+" adds the products of rows with one block of packed weights to acc (32 outputs per row, rows stride bytes",
		fmt.Sprintf("apart), panel by panel of %d columns.", f.panelColumns))
	Pragma("noescape")

	acc := Load(Param("acc"), GP64())
	var stride Register
	if rows > 1 {
		stride = Load(Param("stride"), GP64())
	}
	weights := Load(Param("weights"), GP64())
	x := make([]Register, rows)
	for r := range x {
		x[r] = Load(Param(fmt.Sprintf("x%d", r)), GP64())
	}
	columns := Load(Param("columns"), GP64())
	count := GP64()
	sums := make([][4]VecVirtual, rows)
	for r := range sums {
		for v := range sums[r] {
			sums[r][v] = YMM()
		}
	}
	column := func(i int) {
		values := make([]VecVirtual, rows)
		for r := range values {
			values[r] = YMM()
			VBROADCASTSS(Mem{Base: x[r], Disp: 4 * i}, values[r])
		}
		for v := range 4 {
			w := f.load(Mem{Base: weights, Disp: i * f.columnBytes}, v)
			for r := range values {
				VFMADD231PS(w, values[r], sums[r][v])
			}
		}
		prefetch(weights, i*f.columnBytes+prefetchAhead, f.columnBytes)
	}
	advance := func(n int) {
		ADDQ(U32(n*f.columnBytes), weights)
		for r := range x {
			ADDQ(Imm(uint64(4*n)), x[r])
		}
	}

	Label("panel")
	MOVQ(U32(f.panelColumns), count)
	CMPQ(columns, count)
	CMOVQLT(columns, count)
	SUBQ(count, columns)
	var scales Register
	if f.scaled {
		scales = GP64()
		MOVQ(weights, scales)
		ADDQ(U32(4*blockOutputs), weights)
	}
	for r := range sums {
		for _, sum := range sums[r] {
			VXORPS(sum, sum, sum)
		}
	}
	Label("four")
	CMPQ(count, Imm(4))
	JLT(LabelRef("rest"))
	for i := range 4 {
		column(i)
	}
	advance(4)
	SUBQ(Imm(4), count)
	JMP(LabelRef("four"))
	Label("rest")
	TESTQ(count, count)
	JZ(LabelRef("add"))
	Label("one")
	column(0)
	advance(1)
	DECQ(count)
	JNZ(LabelRef("one"))
	Label("add")
	target := GP64()
	MOVQ(acc, target)
	for r := range sums {
		for v, sum := range sums[r] {
			m := Mem{Base: target, Disp: 32 * v}
			if f.scaled {
				total := YMM()
				VMOVUPS(m, total)
				VFMADD231PS(Mem{Base: scales, Disp: 32 * v}, sum, total)
				VMOVUPS(total, m)
				continue
			}
			VADDPS(m, sum, sum)
			VMOVUPS(sum, m)
		}
		if r < rows-1 {
			ADDQ(stride, target)
		}
	}
	TESTQ(columns, columns)
	JNZ(LabelRef("panel"))
	VZEROUPPER()
	RET()
}
