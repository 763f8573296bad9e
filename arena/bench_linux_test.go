package arena

import (
	"os"
	"testing"
)

// The size of one Qwen3-30B-A3B expert in q8.
var benchGeometry = Geometry{Slots: 32, SlotBytes: 4_868_352}

func benchArena(b *testing.B, anonymous bool) (*Arena, Options) {
	o := Options{Dir: "none", Identity: testIdentity}
	if !anonymous {
		dir, err := os.MkdirTemp(".", "tmp-bench-") // b.TempDir may be a tmpfs
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { os.RemoveAll(dir) })
		o.Dir = dir
	}
	return benchOpen(b, o), o
}

func benchOpen(b *testing.B, o Options) *Arena {
	s, err := OpenStore(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	a, err := s.Open(testKey, benchGeometry)
	if err != nil {
		b.Fatal(err)
	}
	if !a.Valid(0) {
		benchFill(b, a)
	}
	return a
}

func benchFill(b *testing.B, a *Arena) {
	all := make([]int, benchGeometry.Slots)
	for i := range all {
		all[i] = i
	}
	data := content(0, 1, benchGeometry.SlotBytes)
	if err := a.Fill(all, func(_ int, dst []byte) error { copy(dst, data); return nil }); err != nil {
		b.Fatal(err)
	}
}

func benchBring(b *testing.B, a *Arena, slot int, want bool) {
	if hit, err := a.Bring(slot); err != nil || hit != want {
		b.Fatalf("hit %v, %v", hit, err)
	}
}

// BenchmarkBring of slots that are resident (hot), of such by all CPUs at once, of the first time after a start (with the
// checksum), and from the disk.
func BenchmarkBring(b *testing.B) {
	for _, memory := range []string{"file", "anonymous"} {
		a, o := benchArena(b, memory == "anonymous")
		n := benchGeometry.Slots
		for slot := range n {
			benchBring(b, a, slot, true)
		}
		b.Run("memory="+memory+"/state=hot", func(b *testing.B) {
			for i := range b.N {
				benchBring(b, a, i%n, true)
			}
		})
		b.Run("memory="+memory+"/state=parallel", func(b *testing.B) {
			b.RunParallel(func(p *testing.PB) {
				for i := 0; p.Next(); i++ {
					benchBring(b, a, i%n, true)
				}
			})
		})
		if memory == "anonymous" {
			continue
		}
		b.Run("memory=file/state=cold", func(b *testing.B) {
			b.SetBytes(int64(benchGeometry.SlotBytes))
			for i := range b.N {
				b.StopTimer()
				if err := a.Evict(i % n); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				benchBring(b, a, i%n, false)
			}
			if h, err := a.store.HugePages(); err == nil {
				b.ReportMetric(100*h.Share(), "%huge")
			}
		})
		if err := a.store.Close(); err != nil {
			b.Fatal(err)
		}
		b.Run("memory=file/state=cached,unverified", func(b *testing.B) {
			b.SetBytes(int64(benchGeometry.SlotBytes))
			a := benchOpen(b, o)
			for i := range b.N {
				a.slots[i%n].state.Store(marked | reused)
				benchBring(b, a, i%n, true)
			}
		})
	}
}

// BenchmarkFill writes a layer's slots.
func BenchmarkFill(b *testing.B) {
	for _, memory := range []string{"file", "anonymous"} {
		b.Run("memory="+memory, func(b *testing.B) {
			a, _ := benchArena(b, memory == "anonymous")
			b.SetBytes(int64(benchGeometry.Slots * benchGeometry.SlotBytes))
			for b.Loop() {
				benchFill(b, a)
			}
		})
	}
}
