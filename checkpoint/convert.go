package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// convert stores len(dst) elements of src as float32; src has exactly their bytes.
func convert(dtype DType, dst []float32, src []byte) {
	switch dtype {
	case BF16:
		convertBF16(dst, src)
	case F16:
		convertF16(dst, src)
	case F32:
		convertF32(dst, src)
	default:
		panic(fmt.Sprintf("checkpoint: elements of type %s are not read as float32", dtype))
	}
}

// convertBF16 widens bfloat16: its 16 bits are the upper half of a float32.
func convertBF16(dst []float32, src []byte) {
	for len(dst) >= 8 && len(src) >= 16 {
		out, in := (*[8]float32)(dst), (*[16]byte)(src)
		first, second := binary.LittleEndian.Uint64(in[:8]), binary.LittleEndian.Uint64(in[8:])
		out[0] = math.Float32frombits(uint32(first) << 16)
		out[1] = math.Float32frombits(uint32(first) & 0xffff0000)
		out[2] = math.Float32frombits(uint32(first>>32) << 16)
		out[3] = math.Float32frombits(uint32(first>>32) & 0xffff0000)
		out[4] = math.Float32frombits(uint32(second) << 16)
		out[5] = math.Float32frombits(uint32(second) & 0xffff0000)
		out[6] = math.Float32frombits(uint32(second>>32) << 16)
		out[7] = math.Float32frombits(uint32(second>>32) & 0xffff0000)
		dst, src = dst[8:], src[16:]
	}
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// convertF16 widens IEEE half precision, exactly.
func convertF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for i := range dst {
		dst[i] = halfToFloat(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func halfToFloat(half uint16) float32 {
	sign := uint32(half&0x8000) << 16
	magnitude := uint32(half & 0x7fff)
	switch {
	case magnitude >= 0x7c00: // infinity and NaN keep their payload
		return math.Float32frombits(sign | 0x7f800000 | magnitude&0x3ff<<13)
	case magnitude >= 0x400:
		return math.Float32frombits(sign | (magnitude<<13 + (127-15)<<23))
	default: // zero and denormals: a multiple of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(magnitude)*0x1p-24))
	}
}

func convertF32(dst []float32, src []byte) {
	if len(dst) == 0 {
		return
	}
	src = src[:4*len(dst)]
	if littleEndian { // the bytes go where they are needed, whatever the alignment of src
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), len(src)), src)
		return
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}
