package engine

import (
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
	"github.com/moepool/moepool/kernels"
)

// The jobs of products cover each output once, in ascending order, start at whole blocks, and never grow; the last one is a block.
func TestCutProducts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		products := make([]product, rapid.IntRange(1, 3).Draw(t, "products"))
		for i := range products {
			products[i].matrix.Outputs = rapid.IntRange(1, 5000).Draw(t, "outputs")
		}
		threads := rapid.IntRange(1, 64).Draw(t, "threads")
		jobs := cutProducts(nil, products, threads)
		next, width := job{}, mostJobBlocks
		for _, j := range jobs {
			if next.to == products[next.product].matrix.Outputs {
				next = job{product: next.product + 1}
			}
			if j.product != next.product || j.from != next.to || j.from%kernels.BlockOutputs != 0 || j.to <= j.from {
				t.Fatalf("job %v comes after %v", j, next)
			}
			next = j
			// The end of a product may cut a job short.
			if j.to == products[j.product].matrix.Outputs {
				continue
			}
			if w := blocks(j.to - j.from); w > width {
				t.Fatalf("job %v has %d blocks, one before it %d", j, w, width)
			} else {
				width = w
			}
		}
		if last := len(products) - 1; next.product != last || next.to != products[last].matrix.Outputs {
			t.Fatalf("the last job is %v", next)
		}
		if blocks(next.to-next.from) != 1 {
			t.Fatalf("the last job %v has more than a block", next)
		}
	})
}
