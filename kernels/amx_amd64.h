// The AMX instructions that amx_amd64.s uses. Go's assembler doesn't know them, so each form is a macro of its bytes: VEX.128.0F38.W0
// as in the Intel SDM, volume 2. Tiles are their numbers 0-7, general registers their numbers in an encoding, operands in
// Go's order (sources first). TestAMXMacros compares the bytes with documented encodings and with those of the system's assembler.

#define rAX 0
#define rCX 1
#define rDX 2
#define rBX 3
#define rSI 6
#define rDI 7
#define r8 8
#define r9 9
#define r10 10
#define r11 11
#define r12 12

// LDTILECFG(base) loads the 64 bytes of a tile configuration at (base), one of the first eight registers but SP and BP.
#define LDTILECFG(base) BYTE $0xC4; BYTE $0xE2; BYTE $0x78; BYTE $0x49; BYTE $(base)

// TILERELEASE ends the use of tiles.
#define TILERELEASE BYTE $0xC4; BYTE $0xE2; BYTE $0x78; BYTE $0x49; BYTE $0xC0

// TILEZERO(t) fills a tile with zeros.
#define TILEZERO(t) BYTE $0xC4; BYTE $0xE2; BYTE $0x7B; BYTE $0x49; BYTE $(0xC0|(t)<<3)

// TILELOADD(base, index, t) loads rows from (base), index bytes apart. The base is neither BP nor R13, the index not SP.
#define TILELOADD(base, index, t) BYTE $0xC4; BYTE $(0x82|(1-(index)/8)<<6|(1-(base)/8)<<5); BYTE $0x7B; BYTE $0x4B; BYTE $(0x04|(t)<<3); BYTE $(((index)&7)<<3|(base)&7)

// TILESTORED(t, base, index) stores rows to (base), index bytes apart.
#define TILESTORED(t, base, index) BYTE $0xC4; BYTE $(0x82|(1-(index)/8)<<6|(1-(base)/8)<<5); BYTE $0x7A; BYTE $0x4B; BYTE $(0x04|(t)<<3); BYTE $(((index)&7)<<3|(base)&7)

// TDPBSUD(b, a, c) adds to the int32 of c the products of a's signed with b's unsigned bytes.
#define TDPBSUD(b, a, c) BYTE $0xC4; BYTE $0xE2; BYTE $(0x02|(15-(b))<<3); BYTE $0x5E; BYTE $(0xC0|(c)<<3|(a))

// TDPBSSD(b, a, c) is the same with signed bytes of b.
#define TDPBSSD(b, a, c) BYTE $0xC4; BYTE $0xE2; BYTE $(0x03|(15-(b))<<3); BYTE $0x5E; BYTE $(0xC0|(c)<<3|(a))
