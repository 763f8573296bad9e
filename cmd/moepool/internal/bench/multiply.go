package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/kernels"
)

// Multiply measures the products of one matrix with some rows on one thread: from the cache, again and again the same matrix, and from
// memory, matrix after matrix.
type Multiply struct {
	Outputs, Columns int
	Rows             []int
	Formats          []kernels.Format
	Sets             []*kernels.Set
	CPU              int
	Bytes            int // of matrices in memory
	Effort           Effort
	Roofline         Roofline // of one thread
	Memory           Memory
}

// Validate says what is wrong with the sizes.
func (m *Multiply) Validate() error {
	if m.Outputs < 1 || m.Outputs > 1<<18 {
		return fmt.Errorf("--outputs is %d, valid are 1 to %d", m.Outputs, 1<<18)
	}
	if m.Columns < 1 || m.Columns > 1<<18 {
		return fmt.Errorf("--columns is %d, valid are 1 to %d", m.Columns, 1<<18)
	}
	return nil
}

// Count is the number of rows that Run reports.
func (m *Multiply) Count() int { return 2 * len(m.Rows) * len(m.Formats) * len(m.Sets) }

// Run measures each combination.
func (m *Multiply) Run(ctx context.Context, report func(Row)) error {
	_, err := together([]int{m.CPU}, func(int) error {
		for _, f := range m.Formats {
			if err := m.format(ctx, f, report); err != nil {
				return fmt.Errorf("format %v: %w", f, err)
			}
		}
		return nil
	})
	return err
}

// format measures a format with all sets.
func (m *Multiply) format(ctx context.Context, f kernels.Format, report func(Row)) error {
	one := kernels.MatrixBytes(f, m.Outputs, m.Columns)
	count := max(1, m.Bytes/one)
	most := 0
	for _, rows := range m.Rows {
		most = max(most, rows)
	}
	need := float64(one)*float64(count) + float64(most)*float64(m.Outputs*4+m.Columns*5)
	if err := m.Memory.Check(int64(min(need, 1<<50)), "matrices and rows"); err != nil {
		return err
	}
	data, free, err := arena.Anonymous(one*count, "bench: matrices")
	if err != nil {
		return err
	}
	defer free()
	matrices := make([]kernels.Matrix, count)
	random := rand.New(rand.NewPCG(5, 6))
	for i := range matrices {
		matrices[i] = kernels.Matrix{Format: f, Outputs: m.Outputs, Columns: m.Columns, Data: data[i*one : (i+1)*one : (i+1)*one]}
		if i == 0 {
			if err := packRandom(matrices[0], random); err != nil {
				return err
			}
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rotateBlocks(matrices[i], matrices[0], i)
	}
	for _, rows := range m.Rows {
		w := &work{shape: LayerShape{Hidden: m.Columns, Format: f}, random: random}
		for _, set := range m.Sets {
			if err := w.fill(set, rows); err != nil {
				return err
			}
			for _, place := range []string{"cache", "memory"} {
				row, err := m.measure(ctx, set, matrices, w, place)
				if err != nil {
					return err
				}
				report(row)
			}
		}
	}
	return nil
}

// sampleBytes of matrices are read in one measured stretch, so that no call's luck with the caches counts.
const sampleBytes = 32 << 20

func (m *Multiply) measure(ctx context.Context, set *kernels.Set, matrices []kernels.Matrix, w *work, place string) (Row, error) {
	first, rows := matrices[0], w.Rows
	a := &kernels.Activations{Rows: rows, Columns: m.Columns, Quantized: w.Quantized, Values: w.Values, Codes: w.Codes, Scales: w.Scales}
	index := make([]int32, rows)
	for i := range index {
		index[i] = int32(i)
	}
	dst := make([]float32, rows*m.Outputs)
	memory := place == "memory"
	calls, next := 1, 0
	if memory {
		calls = min(len(matrices), max(1, sampleBytes/len(first.Data)))
	}
	stretch := func() (time.Duration, error) {
		start := time.Now()
		for range calls {
			if ctx.Err() != nil {
				return 0, context.Cause(ctx)
			}
			set.Multiply(dst, m.Outputs, matrices[next], a, index, 0, m.Outputs)
			if memory {
				next = (next + 1) % len(matrices)
			}
		}
		return time.Since(start), nil
	}
	for !memory { // a stretch must be long enough for the clock
		d, err := stretch()
		if err != nil {
			return Row{}, err
		}
		if d > 200*time.Microsecond || calls >= 1<<12 {
			break
		}
		calls *= 2
	}
	times, err := m.Effort.repeat(ctx, stretch)
	if err != nil {
		return Row{}, err
	}
	best := Best(times) / float64(calls)
	bytes := float64(len(first.Data))
	operations := 2 * float64(rows) * float64(m.Outputs) * float64(m.Columns)
	limit := m.Roofline.shortest(bytes, operations, first.Format.Quantized())
	if !memory {
		limit = m.Roofline.shortest(0, operations, first.Format.Quantized())
	}
	return Row{
		Test: place, Rows: rows, Format: first.Format.String(), Kernels: set.Name(), Threads: 1,
		BestMS: known(best), MedianMS: known(Median(times) / float64(calls)),
		GBPS: known(bytes / best / 1e6), GOPS: known(operations / best / 1e6),
		RooflinePercent: known(100 * 1e3 * limit / best),
	}, nil
}
