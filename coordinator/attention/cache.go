package attention

import (
	"fmt"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/kernels"
)

// Format is how K and V are kept.
type Format string

// The KV formats.
const (
	F32  Format = "f32"
	BF16 Format = "bf16"
	// Int8 keeps codes with a scale for each key and value of a position and head.
	Int8 Format = "int8"
)

var kernelFormats = map[Format]kernels.KVFormat{F32: kernels.KVF32, BF16: kernels.KVBF16, Int8: kernels.KVInt8}

// ParseFormat gives the format of a name; an error lists the valid names.
func ParseFormat(name string) (Format, error) {
	f := Format(name)
	if _, ok := kernelFormats[f]; !ok {
		return "", fmt.Errorf("KV format %q is unknown; valid are %q, %q and %q", name, F32, BF16, Int8)
	}
	return f, nil
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

// headBytes is what one head of one layer takes in a block.
func (s Shape) headBytes() int {
	return kernels.KVBlockBytes(kernelFormats[s.Format], s.HeadDim, s.HeadDim)
}

// blockBytes is what a block takes, in all layers.
func (s Shape) blockBytes() int { return s.Layers * s.KVHeads * s.headBytes() }

// PositionBytes is what one position takes, in all layers.
func (s Shape) PositionBytes() int { return s.blockBytes() / BlockKeys }

// Cache keeps the keys and values of one sequence outside the Go heap. It grows by blocks of BlockKeys positions of all layers; within a
// block, each layer and head has a kernels.KVBlock. One goroutine reserves, truncates and closes;
// different positions may be stored at once.
type Cache struct {
	shape     Shape
	format    kernels.KVFormat
	headBytes int
	blocks    []block
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
	return &Cache{shape: shape, format: kernelFormats[shape.Format], headBytes: shape.headBytes()}, nil
}

// Reserve makes room for positions [0, positions). On an error the cache keeps what it has.
func (c *Cache) Reserve(positions int) error {
	for len(c.blocks)*BlockKeys < positions {
		data, free, err := arena.Anonymous(c.shape.blockBytes(), "KV cache")
		if err != nil {
			return fmt.Errorf("KV cache of %d positions (%d blocks of %d bytes so far): %w",
				positions, len(c.blocks), c.shape.blockBytes(), err)
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
	return int64(len(c.blocks)) * int64(c.shape.blockBytes())
}

// Store keeps one layer's keys and values [KVHeads·HeadDim] of a reserved position, in the cache's format.
func (c *Cache) Store(set *kernels.Set, layer, position int, keys, values []float32) {
	for head := range c.shape.KVHeads {
		from, to := head*c.shape.HeadDim, (head+1)*c.shape.HeadDim
		set.StoreKV(c.head(layer, head, position/BlockKeys), position%BlockKeys, keys[from:to], values[from:to])
	}
}

// head is one layer and head of a block.
func (c *Cache) head(layer, head, block int) kernels.KVBlock {
	at := (layer*c.shape.KVHeads + head) * c.headBytes
	return kernels.KVBlock{
		Format: c.format, KeyDim: c.shape.HeadDim, ValueDim: c.shape.HeadDim,
		Data: c.blocks[block].data[at : at+c.headBytes : at+c.headBytes],
	}
}
