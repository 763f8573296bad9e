// VPDPBUSD_VEX(x, w, d) is VPDPBUSD Yx, Yw, Yd of AVX-VNNI, in the VEX encoding that Go's assembler lacks (its VPDPBUSD is AVX-512's,
// with an EVEX prefix): to each of the 8 int32 of register d the products of 4 signed bytes of x and 4 unsigned bytes of w are added.
// C4, then inverted high bits of d and x and the map 0F38, then the inverted number of w with 256 bits and 66, opcode, registers.
#define VPDPBUSD_VEX(x, w, d) \
	BYTE $0xC4; BYTE $(0xE2-(d)/8*0x80-(x)/8*0x20); BYTE $(0x05+(15-(w))*8); BYTE $0x50; BYTE $(0xC0+(d)%8*8+(x)%8)
