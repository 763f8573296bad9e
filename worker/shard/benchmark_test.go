package shard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/transport"
)

// benchmarkHolder is a holder of nothing yet for one layer of Qwen3-30B-A3B's experts (32 of its 128), with arena files.
func benchmarkHolder(b *testing.B, threads int, resident *ResidentOptions) (*Holder, *checkpoint.Checkpoint) {
	b.Helper()
	spec, err := synth.Like("qwen3-30b-a3b")
	if err != nil {
		b.Fatal(err)
	}
	spec.Layers, spec.Experts, spec.Vocabulary = 1, 32, 512
	dir := filepath.Join(b.TempDir(), "model")
	if err := synth.Write(dir, spec, nil); err != nil {
		b.Fatal(err)
	}
	cp, err := checkpoint.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cp.Close() })
	set, err := kernels.Select("")
	if err != nil {
		b.Fatal(err)
	}
	store, err := arena.OpenStore(arena.Options{Dir: b.TempDir(), Identity: "benchmark"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	tm, err := team.New(threads, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(tm.Close)
	return NewHolder(Options{Checkpoint: cp, Store: store, Dir: store.Dir(), Team: tm, Kernels: set, Node: -1, Resident: resident}), cp
}

// BenchmarkCompute is that layer: 8 experts a row, chosen at random; with a ledger whose limit has room for all of them, and without one.
func BenchmarkCompute(b *testing.B) {
	for _, ledger := range []bool{false, true} {
		var resident *ResidentOptions
		if ledger {
			resident = &ResidentOptions{Limit: 1 << 40}
		}
		h, cp := benchmarkHolder(b, runtime.GOMAXPROCS(0), resident)
		s := loadWhole(b, h, cp)
		for _, rows := range []int{1, 8, 64, 512} {
			b.Run(fmt.Sprintf("ledger=%v/rows=%d", ledger, rows), func(b *testing.B) {
				w := benchmarkWork(b, h.o.Kernels, s.Plan(), rows)
				var r transport.Result
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Compute(context.Background(), w, &r); err != nil {
						b.Fatal(err)
					}
				}
				weights := float64(len(r.Parts)) * float64(s.Plan().Shapes[0].Bytes()) * float64(b.N)
				b.ReportMetric(weights/b.Elapsed().Seconds()/1e9, "GB/s")
				operations := 2 * float64(len(w.Parts)) * 3 * float64(cp.Config().Hidden*cp.Config().ExpertIntermediate) * float64(b.N)
				b.ReportMetric(operations/b.Elapsed().Seconds()/1e9, "GOP/s")
			})
		}
	}
}

func loadWhole(b *testing.B, h *Holder, cp *checkpoint.Checkpoint) *Shards {
	b.Helper()
	plan, err := NewPlan(cp.Config(), kernels.Q8, 1, Whole(cp.Config(), 1))
	if err != nil {
		b.Fatal(err)
	}
	s, err := h.Load(context.Background(), Loading{Plan: plan})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func benchmarkWork(b *testing.B, set *kernels.Set, p *Plan, rows int) *transport.Work {
	r := rand.New(rand.NewPCG(1, 2))
	hidden := p.Shapes[0].Hidden
	var a kernels.Activations
	a.Reset(true, rows, hidden)
	w := &transport.Work{Rows: rows, Hidden: hidden, Quantized: true, Offsets: []uint32{0}}
	x := make([]float32, hidden)
	for row := range rows {
		for c := range x {
			x[c] = float32(r.NormFloat64())
		}
		if err := set.Prepare(&a, row, x); err != nil {
			b.Fatal(err)
		}
		chosen := r.Perm(p.Experts)[:8]
		for id := range p.Experts {
			for _, c := range chosen {
				if c == id {
					w.Parts, w.Weights = append(w.Parts, uint32(id)), append(w.Weights, r.Float32())
				}
			}
		}
		w.Offsets = append(w.Offsets, uint32(len(w.Parts)))
	}
	w.Codes, w.Scales = a.Codes, a.Scales
	return w
}

// BenchmarkComputeBeside is a row of the layer of BenchmarkCompute, whose first 16 experts are served: alone, and while the other 16 are packed
// from the checkpoint again and again.
func BenchmarkComputeBeside(b *testing.B) {
	h, cp := benchmarkHolder(b, runtime.NumCPU(), nil)
	half := func(from uint32) *Plan {
		l := transport.LayerParts{}
		for id := from; id < from+16; id++ {
			l.Parts = append(l.Parts, id)
		}
		return planOf(b, cp, 1, l)
	}
	s, err := h.Load(context.Background(), Loading{Plan: half(0)})
	if err != nil {
		b.Fatal(err)
	}
	w := benchmarkWork(b, h.o.Kernels, s.Plan(), 1)
	for i := range w.Parts {
		w.Parts[i] = uint32(2 * i)
	}
	for _, beside := range []string{"nothing", "load"} {
		b.Run("beside="+beside, func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			loads, ended := 0, make(chan struct{})
			go func() {
				defer close(ended)
				for beside == "load" && ctx.Err() == nil {
					if _, err := h.Load(ctx, Loading{Plan: half(16), Keep: []*Shards{s}}); err != nil && ctx.Err() == nil {
						b.Error(err)
					}
					if err := h.GiveBack(s); err != nil {
						b.Error(err)
					}
					loads++
				}
			}()
			var r transport.Result
			longest := time.Duration(0)
			for b.Loop() {
				begun := time.Now()
				if err := s.Compute(context.Background(), w, &r); err != nil {
					b.Fatal(err)
				}
				longest = max(longest, time.Since(begun))
			}
			cancel()
			<-ended
			b.ReportMetric(float64(longest.Microseconds()), "µs-longest")
			b.ReportMetric(float64(loads), "loads")
		})
	}
}

// BenchmarkComputeMissing is a row of the layer of BenchmarkCompute whose 8 experts are never in memory, since the limit has room for 8 and the rows
// ask for others in turns: all bytes come from the disk, and are evicted again. MB/s is to be compared with the disk's sequential speed.
func BenchmarkComputeMissing(b *testing.B) {
	h, cp := benchmarkHolder(b, runtime.NumCPU(), &ResidentOptions{Limit: 8 * 5 << 20})
	s := loadWhole(b, h, cp)
	w := benchmarkWork(b, h.o.Kernels, s.Plan(), 1)
	for _, readers := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			h.limits.readers = readers
			turn := uint32(0)
			benchmarkMissing(b, s, w, func() {
				turn++
				for i := range w.Parts {
					w.Parts[i] = turn%4*8 + uint32(i)
				}
			})
		})
	}
}

// BenchmarkComputeWaves is the layer of BenchmarkCompute with rows that need all of its experts, 4 times as many as the limit has room for.
func BenchmarkComputeWaves(b *testing.B) {
	h, cp := benchmarkHolder(b, runtime.NumCPU(), &ResidentOptions{Limit: 8 * 5 << 20})
	s := loadWhole(b, h, cp)
	for _, rows := range []int{64, 512} {
		w := benchmarkWork(b, h.o.Kernels, s.Plan(), rows)
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) { benchmarkMissing(b, s, w, func() {}) })
	}
}

func benchmarkMissing(b *testing.B, s *Shards, w *transport.Work, next func()) {
	var r transport.Result
	read, missed := int64(0), int64(0)
	for b.Loop() {
		next()
		if err := s.Compute(context.Background(), w, &r); err != nil {
			b.Fatal(err)
		}
		read += r.BytesRead
		missed += r.MissBytes
	}
	b.ReportMetric(float64(missed)/b.Elapsed().Seconds()/1e6, "MB/s")
	b.ReportMetric(float64(read)/float64(missed), "read/missed")
}
