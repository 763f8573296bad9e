package shard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
)

// packer packs experts on a crew while the arena writes those that are ready.
type packer struct {
	s        *Shards
	crew     crew
	progress func(ready, total int64)
	ready    *atomic.Int64 // bytes, for progress
	room     []byte        // buffers, one after the other
	freeRoom func()
}

// buffersPerThread packed slots may wait for the arena to write them.
const buffersPerThread = 2

// fill packs the listed slots of a layer's part. Job i packs into buffer i mod n, after the arena has taken the work of job i-n from it.
// Jobs start in ascending order and wait for earlier ones only, and the arena takes them in that order, so none waits for ever.
func (p *packer) fill(ctx context.Context, l *layer, part int, slots []int) error {
	if len(slots) == 0 {
		return nil
	}
	shape := p.s.plan.Shapes[part]
	bytes := shape.Bytes()
	n := min(len(slots), buffersPerThread*p.crew.Threads())
	buffers, err := p.buffers(n, bytes)
	if err != nil {
		return err
	}
	packed, taken := make([]chan error, len(slots)), make([]chan struct{}, len(slots)) // by job
	for i := range slots {
		packed[i], taken[i] = make(chan error, 1), make(chan struct{})
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- p.crew.Run(len(slots), func(i, _ int) (err error) {
			if i >= n {
				select {
				case <-taken[i-n]:
				case <-ctx.Done():
				}
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// Whatever happens, the arena must not be left waiting.
			err = errNotPacked
			defer func() { packed[i] <- err }()
			err = p.s.h.o.pack(shape, l.number, slots[i], part, len(l.arenas), buffers[i%n])
			return err
		})
	}()
	next := 0
	err = l.arenas[part].Fill(slots, func(slot int, dst []byte) error {
		if next == len(slots) || slots[next] != slot {
			// The arena asks again, for example for memory after the disk was full.
			return p.s.h.o.pack(shape, l.number, slot, part, len(l.arenas), dst)
		}
		i := next
		next++
		select {
		case err := <-packed[i]:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		copy(dst, buffers[i%n])
		close(taken[i])
		p.progress(p.ready.Add(int64(bytes)), p.s.plan.Bytes)
		return nil
	})
	stop()
	packErr := <-ended
	if packErr != nil && (err == nil || errors.Is(err, errNotPacked)) {
		return packErr
	}
	return err
}

// errNotPacked stands for the error that the crew reports for the job.
var errNotPacked = errors.New("expert was not packed")

// buffers gives n buffers of a size, reusing memory.
func (p *packer) buffers(n, bytes int) ([][]byte, error) {
	stride := roundUp(bytes, 4096)
	if len(p.room) < n*stride {
		p.free()
		room, free, err := arena.Anonymous(n*stride, "packing")
		if err != nil {
			return nil, err
		}
		p.room, p.freeRoom = room, free
	}
	buffers := make([][]byte, n)
	for i := range buffers {
		buffers[i] = p.room[i*stride : i*stride+bytes : i*stride+bytes]
	}
	return buffers, nil
}

func (p *packer) free() {
	if p.freeRoom != nil {
		p.freeRoom()
		p.room, p.freeRoom = nil, nil
	}
}

// pack fills dst with a part of an expert.
func (o *Options) pack(shape kernels.ExpertShape, layer, expert, part, parts int, dst []byte) error {
	if o.Pack != nil {
		return o.Pack(shape, layer, expert, part, dst)
	}
	return packExpert(o.Checkpoint, shape, layer, expert, part, parts, dst)
}

// packExpert packs a part of an expert: rows [from, to) of gate and up, the same columns of down. That the checkpoint's files became
// shorter underneath is an error of it, on any goroutine.
func packExpert(cp *checkpoint.Checkpoint, shape kernels.ExpertShape, layer, expert, part, parts int, dst []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if fault, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		}); ok {
			err = fmt.Errorf("read expert %d of layer %d in %s: a file became shorter while it was packed: %w", expert, layer, cp.Dir(),
				&team.FaultError{Address: fault.Addr()})
		} else if r != nil {
			panic(r)
		}
	}()
	c := cp.Config()
	names := c.Expert(layer, expert)
	from, to := kernels.PartRange(shape.Format, c.ExpertIntermediate, parts, part)
	if to-from != shape.Intermediate {
		return fmt.Errorf("part %d of %d has %d intermediate columns, the plan says %d", part, parts, to-from, shape.Intermediate)
	}
	var tensors [3]checkpoint.Tensor
	for i, name := range []string{names.Gate, names.Up, names.Down} {
		if tensors[i], err = cp.Tensor(name); err != nil {
			return err
		}
	}
	gate, up, down := tensors[0], tensors[1], tensors[2]
	e := shape.Split(dst)
	if err := packMatrix(e.Gate, gate, from, 0); err != nil {
		return fmt.Errorf("%s: %w", names.Gate, err)
	}
	if err := packMatrix(e.Up, up, from, 0); err != nil {
		return fmt.Errorf("%s: %w", names.Up, err)
	}
	if err := packMatrix(e.Down, down, 0, from); err != nil {
		return fmt.Errorf("%s: %w", names.Down, err)
	}
	return nil
}

// packMatrix packs the part of a tensor that begins at a row and column. FP8 stays as it is stored where the format is fp8.
func packMatrix(m kernels.Matrix, t checkpoint.Tensor, row, column int) error {
	if m.Format == kernels.FP8 && t.BlockFP8() {
		return kernels.PackStored(m, func(output int, codes []byte, scales []float32) { t.StoredFP8(row+output, column, codes, scales) })
	}
	return kernels.Pack(m, func(output int, weights []float32) { t.RowRange(row+output, column, weights) })
}
