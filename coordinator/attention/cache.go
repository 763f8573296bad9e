package attention

import (
	"fmt"
	"unsafe"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/kernels"
)

// Format is how K and V are kept.
type Format string

// The KV formats.
const (
	F32  Format = "f32"
	BF16 Format = "bf16"
)

// ParseFormat gives the format of a name; an error lists the valid names.
func ParseFormat(name string) (Format, error) {
	f := Format(name)
	if f.bytes() == 0 {
		return "", fmt.Errorf("KV format %q is unknown; valid are %q and %q", name, F32, BF16)
	}
	return f, nil
}

// bytes is the size of one element, 0 for an unknown format.
func (f Format) bytes() int {
	switch f {
	case F32:
		return 4
	case BF16:
		return 2
	}
	return 0
}

// Shape is what the caches of one model have in common.
type Shape struct {
	Layers, KVHeads, HeadDim int
	Format                   Format
}

func (s Shape) validate() error {
	if _, err := ParseFormat(string(s.Format)); err != nil {
		return err
	}
	if s.Layers < 1 || s.KVHeads < 1 || s.HeadDim < 1 {
		return fmt.Errorf("KV cache: %d layers of %d heads of %d: none may be zero", s.Layers, s.KVHeads, s.HeadDim)
	}
	return nil
}

// PositionBytes is what one position takes, in all layers.
func (s Shape) PositionBytes() int {
	return s.Layers * s.KVHeads * s.HeadDim * 2 * s.Format.bytes()
}

// Cache keeps the keys and values of one sequence outside the Go heap. It grows by blocks of BlockKeys positions of all layers; within a
// block, each layer and head has its keys [BlockKeys, HeadDim], then its values. One goroutine reserves, truncates and closes;
// different positions may be stored at once.
type Cache struct {
	shape  Shape
	blocks []block
}

type block struct {
	data []byte
	free func()
}

// NewCache gives an empty cache.
func NewCache(shape Shape) (*Cache, error) {
	if err := shape.validate(); err != nil {
		return nil, err
	}
	return &Cache{shape: shape}, nil
}

// Reserve makes room for positions [0, positions). On an error the cache keeps what it has.
func (c *Cache) Reserve(positions int) error {
	for len(c.blocks)*BlockKeys < positions {
		data, free, err := arena.Anonymous(BlockKeys*c.shape.PositionBytes(), "KV cache")
		if err != nil {
			return fmt.Errorf("KV cache of %d positions (%d blocks of %d bytes so far): %w",
				positions, len(c.blocks), BlockKeys*c.shape.PositionBytes(), err)
		}
		c.blocks = append(c.blocks, block{data, free})
	}
	return nil
}

// Truncate gives the memory of blocks back that hold none of the positions [0, positions).
func (c *Cache) Truncate(positions int) {
	keep := (max(positions, 0) + BlockKeys - 1) / BlockKeys
	for i := keep; i < len(c.blocks); i++ {
		c.blocks[i].free()
		c.blocks[i] = block{}
	}
	c.blocks = c.blocks[:min(keep, len(c.blocks))]
}

// Close gives all memory back.
func (c *Cache) Close() { c.Truncate(0) }

// Bytes is the memory held.
func (c *Cache) Bytes() int64 {
	return int64(len(c.blocks)) * BlockKeys * int64(c.shape.PositionBytes())
}

// Store keeps one layer's keys and values [KVHeads·HeadDim] of a reserved position, in the cache's format.
func (c *Cache) Store(set *kernels.Set, layer, position int, keys, values []float32) {
	dim := c.shape.HeadDim
	at := position % BlockKeys * dim
	for head := range c.shape.KVHeads {
		k, v := keys[head*dim:(head+1)*dim], values[head*dim:(head+1)*dim]
		data := c.head(layer, head, position/BlockKeys)
		if c.shape.Format == F32 {
			stored := floats(data)
			copy(stored[at:at+dim], k)
			copy(stored[at+BlockKeys*dim:][:dim], v)
			continue
		}
		stored := halves(data)
		set.ToBF16(stored[at:at+dim], k)
		set.ToBF16(stored[at+BlockKeys*dim:][:dim], v)
	}
}

// read gives the keys and values [BlockKeys, HeadDim] of one block as float32, of which [from, to) are valid: views of the cache, or
// converted into the scratch.
func (c *Cache) read(set *kernels.Set, s *scratch, layer, head, block, from, to int) (keys, values []float32) {
	data, size, dim := c.head(layer, head, block), BlockKeys*c.shape.HeadDim, c.shape.HeadDim
	if c.shape.Format == F32 {
		stored := floats(data)
		return stored[:size], stored[size:]
	}
	stored := halves(data)
	set.FromBF16(s.keys[from*dim:to*dim], stored[from*dim:to*dim])
	set.FromBF16(s.values[from*dim:to*dim], stored[size+from*dim:size+to*dim])
	return s.keys, s.values
}

// head is the memory of one layer and head in a block.
func (c *Cache) head(layer, head, block int) []byte {
	size := 2 * BlockKeys * c.shape.HeadDim * c.shape.Format.bytes()
	at := (layer*c.shape.KVHeads + head) * size
	return c.blocks[block].data[at : at+size]
}

func floats(data []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/4)
}

func halves(data []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/2)
}
