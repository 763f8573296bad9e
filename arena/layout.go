package arena

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"

	"github.com/cespare/xxhash/v2"
)

// The file, all numbers little-endian:
//
//	0     magic [16], version u32, entry bytes u32, layer u32, part u32
//	32    slots u64, slot bytes u64, stride u64, offset of slot 0 u64
//	64    SHA-256 of the identity [32]
//	96    xxhash64 of the 96 bytes before
//	4096  per slot: state u64 (0 empty, 1 marked), xxhash64 of its bytes u64, xxhash64 of (identity, slot, state, sum) u64, 0 u64
//	...   slot 0 at the next multiple of 2 MiB, slot i a stride after slot i-1; the file ends a stride after the last
const (
	magic        = "moepool arena\r\n\x1a"
	version      = 1
	fixedBytes   = 104
	tableOffset  = 4096
	entryBytes   = 32
	hugePage     = 2 << 20
	maxSlots     = 1 << 20
	maxFileBytes = 1 << 46 // half of the user's address space on amd64
	stateMarked  = 1
)

type identity [32]byte

func identityOf(s string) identity { return sha256.Sum256([]byte(s)) }

// layout is where things lie in a file; all sizes in bytes.
type layout struct {
	slots     int
	slotBytes int64
	packed    int64 // slotBytes rounded up to pages: what is allocated, populated and counted; the stride in anonymous memory
	stride    int64 // slotBytes rounded up to 2 MiB
	first     int64 // offset of slot 0
	size      int64 // of the file
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

func newLayout(g Geometry) (layout, error) {
	if g.Slots < 1 || g.Slots > maxSlots {
		return layout{}, fmt.Errorf("%d slots, valid are 1 to %d", g.Slots, maxSlots)
	}
	if g.SlotBytes < 1 || int64(g.SlotBytes) > maxFileBytes {
		return layout{}, fmt.Errorf("slots of %d bytes, valid are 1 to %d", g.SlotBytes, int64(maxFileBytes))
	}
	l := layout{slots: g.Slots, slotBytes: int64(g.SlotBytes)}
	l.packed = roundUp(l.slotBytes, int64(os.Getpagesize()))
	l.stride = roundUp(l.slotBytes, hugePage)
	l.first = roundUp(tableOffset+int64(g.Slots)*entryBytes, hugePage)
	if l.stride > (maxFileBytes-l.first)/int64(g.Slots) {
		return layout{}, fmt.Errorf("%d slots of %d bytes are more than %d bytes", g.Slots, g.SlotBytes, int64(maxFileBytes))
	}
	l.size = l.first + int64(g.Slots)*l.stride
	if l.size > math.MaxInt {
		return layout{}, fmt.Errorf("%d slots of %d bytes don't fit this machine's address space", g.Slots, g.SlotBytes)
	}
	return l, nil
}

func (l layout) offset(slot int) int64 { return l.first + int64(slot)*l.stride }

// headerBytes is the part of the header that holds something.
func (l layout) headerBytes() int64 { return tableOffset + int64(l.slots)*entryBytes }

// fixed encodes the header's fixed part.
func (l layout) fixed(k Key, id identity) []byte {
	b := make([]byte, 0, fixedBytes)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, entryBytes)
	b = binary.LittleEndian.AppendUint32(b, uint32(k.Layer))
	b = binary.LittleEndian.AppendUint32(b, uint32(k.Part))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.slots))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.slotBytes))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.stride))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.first))
	b = append(b, id[:]...)
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b))
}

// mismatch says why a file with this fixed part can't be used as the one described; "" if it can.
func (l layout) mismatch(found []byte, k Key, id identity) string {
	want := l.fixed(k, id)
	if len(found) < fixedBytes || string(found[:len(magic)]) != magic {
		return "it is not an arena file"
	}
	if v := binary.LittleEndian.Uint32(found[16:]); v != version {
		return fmt.Sprintf("it has version %d of the layout, this program writes %d", v, version)
	}
	if binary.LittleEndian.Uint64(found[96:]) != xxhash.Sum64(found[:96]) {
		return "its header is damaged"
	}
	if !bytes.Equal(found[64:96], want[64:96]) {
		return "it was written for another model, format or number of parts"
	}
	if !bytes.Equal(found[:fixedBytes], want) {
		return fmt.Sprintf("it is layer %d part %d with %d slots of %d bytes, wanted %v with %d slots of %d bytes",
			binary.LittleEndian.Uint32(found[24:]), binary.LittleEndian.Uint32(found[28:]), binary.LittleEndian.Uint64(found[32:]),
			binary.LittleEndian.Uint64(found[40:]), k, l.slots, l.slotBytes)
	}
	return ""
}

func entryOffset(slot int) int64 { return tableOffset + int64(slot)*entryBytes }

// entry encodes a slot's mark.
func entry(id identity, slot int, state, sum uint64) []byte {
	b := make([]byte, entryBytes)
	if state == 0 {
		return b
	}
	binary.LittleEndian.PutUint64(b, state)
	binary.LittleEndian.PutUint64(b[8:], sum)
	binary.LittleEndian.PutUint64(b[16:], entryCheck(id, slot, state, sum))
	return b
}

func entryCheck(id identity, slot int, state, sum uint64) uint64 {
	b := append(make([]byte, 0, len(id)+24), id[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(slot))
	b = binary.LittleEndian.AppendUint64(b, state)
	return xxhash.Sum64(binary.LittleEndian.AppendUint64(b, sum))
}

// parseEntry gives a slot's checksum if it is marked. A damaged entry is an unmarked one.
func parseEntry(b []byte, id identity, slot int) (sum uint64, ok bool) {
	state := binary.LittleEndian.Uint64(b)
	sum = binary.LittleEndian.Uint64(b[8:])
	ok = state == stateMarked && binary.LittleEndian.Uint64(b[16:]) == entryCheck(id, slot, state, sum)
	return sum, ok
}
