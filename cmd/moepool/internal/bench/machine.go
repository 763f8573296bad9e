package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/numa"
)

// Machine measures the limits of this host.
type Machine struct {
	CPUs   []int         // one of each core: thread i is pinned to CPUs[i]
	Bytes  int           // of memory to read, much more than the caches hold
	Passes int           // over the memory, in each way of reading
	Time   time.Duration // of one repetition of a loop
	Memory Memory        // what may be taken

	loops loops
}

// DefaultBytes is enough memory for a machine whose last cache holds 260 MiB.
const DefaultBytes = 1 << 30

// NewMachine measures with threads on the given CPUs.
func NewMachine(cpus []int, bytes int, memory Memory) *Machine {
	return &Machine{CPUs: cpus, Bytes: bytes, Passes: 3, Time: 2 * time.Millisecond, Memory: memory, loops: bestLoops()}
}

// Roofline is what some threads together can do at most.
type Roofline struct {
	GBPS  float64 // reading memory
	Int8  float64 // 10^9 operations per second of products of bytes
	Float float64 // of float32 multiply-adds
}

// shortest is the least time, in seconds, for reading bytes and doing operations on activations of a kind.
func (r Roofline) shortest(bytes, operations float64, quantized bool) float64 {
	peak := r.Float
	if quantized {
		peak = r.Int8
	}
	return max(bytes/r.GBPS, operations/peak) / 1e9
}

// ThreadCounts are the numbers of threads that a machine is measured with: all up to 16, then powers of two, and the most.
func ThreadCounts(most int) []int {
	var counts []int
	for n := 1; n < most; {
		counts = append(counts, n)
		if n < 16 {
			n++
		} else {
			n *= 2
		}
	}
	return append(counts, most)
}

// Measure gives the limits of the first threads CPUs, and the rows "read", "int8" and "f32". report may be nil.
func (m *Machine) Measure(ctx context.Context, threads int, report func(Row)) (r Roofline, err error) {
	if report == nil {
		report = func(Row) {}
	}
	row, err := m.read(ctx, threads)
	if err != nil {
		return r, err
	}
	r.GBPS = *row.GBPS
	report(row)
	if row, err = m.compute(ctx, "int8", threads, m.loops.int8); err != nil {
		return r, err
	}
	r.Int8 = *row.GOPS
	report(row)
	if row, err = m.compute(ctx, "f32", threads, m.loops.float); err != nil {
		return r, err
	}
	r.Float = *row.GOPS
	report(row)
	return r, nil
}

// How memory is read: which way is fastest differs between machines.
var patterns = []struct{ streams, ahead int }{{1, 0}, {1, 2048}, {4, 0}, {4, 1024}}

// callBytes is what one call of the reader reads: some 10 µs.
const callBytes = 256 << 10

// pieceBytes of its share a thread reads in one timed stretch, of about a millisecond: with other work on the machine, some stretches go
// undisturbed. Pieces are taken in turn, so that no cache holds one when its turn comes.
const pieceBytes = 32 << 20

// read lets each thread read its own share, in memory that it touched first, piece by piece, several times in each way.
func (m *Machine) read(ctx context.Context, threads int) (Row, error) {
	share := m.Bytes / threads / (4 * callBytes) * (4 * callBytes)
	piece := min(share, pieceBytes)
	if share == 0 {
		return Row{}, fmt.Errorf("%d bytes of memory for %d threads: at least %d bytes each are needed", m.Bytes, threads, 4*callBytes)
	}
	if err := m.Memory.Check(int64(share)*int64(threads), "memory to read"); err != nil {
		return Row{}, err
	}
	share = share / piece * piece
	data, free, err := arena.Anonymous(share*threads, "bench: memory to read")
	if err != nil {
		return Row{}, err
	}
	defer free()
	part := func(thread int) []byte { return data[thread*share : (thread+1)*share] }
	if _, err := together(m.CPUs[:threads], func(thread int) error { return fill(ctx, part(thread)) }); err != nil {
		return Row{}, err
	}
	var best, all []time.Duration
	for _, p := range patterns {
		all = all[:0]
		for i := range m.Passes * (share / piece) {
			at := i * piece % share
			d, err := together(m.CPUs[:threads], func(thread int) error {
				return m.readShare(ctx, part(thread)[at:at+piece], p.streams, p.ahead)
			})
			if err != nil {
				return Row{}, err
			}
			all = append(all, d)
		}
		if best == nil || Best(all) < Best(best) {
			best = append([]time.Duration(nil), all...)
		}
	}
	bytes := float64(piece) * float64(threads)
	return Row{
		Test: "read", Kernels: m.loops.read.feature, Threads: threads,
		BestMS: known(Best(best)), MedianMS: known(Median(best)), GBPS: known(bytes / Best(best) / 1e6),
	}, nil
}

// fill writes to each page, since untouched pages are the kernel's page of zeros.
func fill(ctx context.Context, data []byte) error {
	for i := 0; i < len(data); i += callBytes {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for j := i; j < i+callBytes; j += 64 {
			data[j] = byte(j >> 6)
		}
	}
	return nil
}

// readShare reads data once, in one stream or four.
func (m *Machine) readShare(ctx context.Context, data []byte, streams, ahead int) error {
	const line = 128
	places, step, apart := [4]int{0, line, 2 * line, 3 * line}, 4*line, callBytes
	if streams == 4 {
		quarter := len(data) / 4
		places, step, apart = [4]int{0, quarter, 2 * quarter, 3 * quarter}, line, callBytes/4
	}
	mixed := uint64(0)
	for range len(data) / callBytes {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		mixed ^= m.loops.read.read(data, places, ahead, step, callBytes/(4*line))
		for i := range places {
			places[i] += apart
		}
	}
	sink.Add(mixed)
	return nil
}

// loopRepetitions of a loop are measured.
const loopRepetitions = 40

// compute runs a loop on some threads for a while, several times.
func (m *Machine) compute(ctx context.Context, test string, threads int, l loop) (Row, error) {
	calls, err := m.callsFor(ctx, l)
	if err != nil {
		return Row{}, err
	}
	times := make([]time.Duration, loopRepetitions)
	for i := range times {
		times[i], err = together(m.CPUs[:threads], func(int) error {
			for range calls {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				l.run(iterationsPerCall)
			}
			return nil
		})
		if err != nil {
			return Row{}, err
		}
	}
	operations := l.operations * iterationsPerCall * float64(calls) * float64(threads)
	return Row{
		Test: test, Kernels: l.feature, Threads: threads,
		BestMS: known(Best(times)), MedianMS: known(Median(times)), GOPS: known(operations / Best(times) / 1e6),
	}, nil
}

// callsFor finds how many calls of a loop take the time of a repetition.
func (m *Machine) callsFor(ctx context.Context, l loop) (int, error) {
	times, err := Effort{Calls: 20}.repeat(ctx, func() (time.Duration, error) {
		start := time.Now()
		l.run(iterationsPerCall)
		return time.Since(start), nil
	})
	if err != nil {
		return 0, err
	}
	return max(1, int(m.Time/slices.Min(times))), nil
}

// together runs work on a thread per CPU, pinned to it where that is permitted, and gives the time from the first start to the last end.
func together(cpus []int, work func(thread int) error) (time.Duration, error) {
	type span struct{ start, end time.Time }
	var group errgroup.Group
	var arrived atomic.Int64
	spans := make([]span, len(cpus))
	for thread, cpu := range cpus {
		group.Go(func() error {
			runtime.LockOSThread()  // for good: the thread ends with this goroutine, and its affinity with it
			_ = numa.PinThread(cpu) // without permission the kernel places it
			arrived.Add(1)
			for since := time.Now(); arrived.Load() < int64(len(cpus)) && time.Since(since) < longestWait; {
				runtime.Gosched() // where there are fewer processors (GOMAXPROCS) than threads, the others must get theirs
			}
			s := &spans[thread]
			s.start = time.Now()
			err := work(thread)
			s.end = time.Now()
			return err
		})
	}
	err := group.Wait()
	first, last := spans[0].start, spans[0].end
	for _, s := range spans {
		if s.start.Before(first) {
			first = s.start
		}
		if s.end.After(last) {
			last = s.end
		}
	}
	return max(last.Sub(first), time.Nanosecond), err
}

// longestWait of a thread for the others: one that can't come is not waited for.
const longestWait = 20 * time.Millisecond
