package arena

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// coldSlots of benchGeometry's size are read in passes of coldPass: 78 MB.
const (
	coldSlots = 64
	coldPass  = 16
)

// coldArena is a store of coldSlots slots whose bytes are on the disk.
type coldArena struct {
	*Arena
	direct int // the file, past the page cache
	buffer []byte
}

func openCold(b *testing.B, dir string, size PageSize) *coldArena {
	b.Helper()
	s, err := OpenStore(Options{Dir: dir, Identity: testIdentity, HugePages: size})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	a, err := s.Open(testKey, Geometry{Slots: coldSlots, SlotBytes: benchGeometry.SlotBytes})
	if err != nil {
		b.Fatal(err)
	}
	var missing []int
	for slot := range coldSlots {
		if !a.Valid(slot) {
			missing = append(missing, slot)
		}
	}
	if err := a.Fill(missing, filler(1)); err != nil {
		b.Fatal(err)
	}
	c := &coldArena{Arena: a}
	if c.direct, err = unix.Open(a.path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0); err != nil {
		b.Skipf("SKIPPED: %s can't be read past the page cache: %v", filepath.Dir(a.path), err)
	}
	b.Cleanup(func() { _ = unix.Close(c.direct) })
	buffer, free, err := Anonymous(speedPiece, "the disk's speed")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(free)
	clear(buffer) // its pages are there
	c.buffer = buffer
	for slot := range coldSlots { // verified from here on
		if _, err := a.Bring(slot); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// cool drops all slots and looks whether they are gone.
func (c *coldArena) cool(b *testing.B) {
	b.Helper()
	for slot := range coldSlots {
		at := 0
		for range 3 { // the kernel may just have been moving a page
			if err := c.Evict(slot); err != nil {
				b.Fatal(err)
			}
			data := c.bytes(slot, 0)
			for at = 0; at < len(data); at += hugePage / 4 {
				if resident, err := c.store.sys.resident(data[at:min(len(data), at+pageBytes)]); err != nil || resident {
					break
				}
			}
			if at >= len(data) {
				break
			}
		}
		if at < benchGeometry.SlotBytes {
			b.Fatalf("slot %d was evicted, but its byte %d is resident", slot, at)
		}
	}
}

// diskTime reads the bytes of a pass past the page cache: slots in the file's order, without the holes between them.
func (c *coldArena) diskTime(b *testing.B, first int) time.Duration {
	b.Helper()
	start := time.Now()
	for slot := first; slot < first+coldPass; slot++ {
		for at := int64(0); at < c.layout.packed; at += speedPiece {
			if _, err := unix.Pread(c.direct, c.buffer[:min(c.layout.packed-at, speedPiece)], c.layout.offset(slot)+at); err != nil {
				b.Fatal(err)
			}
		}
	}
	return time.Since(start)
}

func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCold reads slots from the disk, in an order that no readahead guesses, with several readers, in the ways that could be had;
// an operation is one slot. Each short pass comes after sequential reads of 4 MiB past the page cache; %disk is the median of the ratios
// of their times, so that others' use of the disk counts for both. cpu-s/GB is the processor time of the whole process.
//
//	go test -run xxx -bench Cold -benchtime 320x ./arena
func BenchmarkCold(b *testing.B) {
	dir, err := os.MkdirTemp(".", "tmp-bench-") // b.TempDir may be a tmpfs
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	buffers := sync.Pool{New: func() any { p := make([]byte, benchGeometry.SlotBytes); return &p }}
	for _, way := range []struct {
		name string
		size PageSize
		read func(c *coldArena, slot int) error
	}{
		{"bring", HugePagesAuto, func(c *coldArena, slot int) error { _, err := c.Bring(slot); return err }},
		{"bring,unverified", HugePagesAuto, func(c *coldArena, slot int) error {
			clearBits(&c.slots[slot].state, verified)
			_, err := c.Bring(slot)
			return err
		}},
		{"bring,smallpages", HugePagesNever, func(c *coldArena, slot int) error { _, err := c.Bring(slot); return err }},
		{"willneed", HugePagesAuto, func(c *coldArena, slot int) error {
			if err := c.file.prefetch(c.layout.offset(slot), c.layout.packed); err != nil {
				return err
			}
			return c.store.sys.populate(c.bytes(slot, 0))
		}},
		{"pread", HugePagesAuto, func(c *coldArena, slot int) error {
			buffer := buffers.Get().(*[]byte)
			defer buffers.Put(buffer)
			if err := c.file.readAt(*buffer, c.layout.offset(slot)); err != nil {
				return err
			}
			return c.store.sys.populate(c.bytes(slot, 0))
		}},
		{"faults", HugePagesNever, func(c *coldArena, slot int) error {
			for data := c.bytes(slot, 0); len(data) > 0; data = data[min(len(data), pageBytes):] {
				touched.Store(uint32(data[0]))
			}
			return nil
		}},
	} {
		for _, readers := range []int{1, 2, 4, 8} {
			b.Run(fmt.Sprintf("way=%s/readers=%d", way.name, readers), func(b *testing.B) {
				c := openCold(b, dir, way.size)
				defer c.store.Close()
				b.SetBytes(int64(benchGeometry.SlotBytes))
				var processor time.Duration
				var ratios []float64
				c.cool(b)
				for done := 0; done < b.N; done += coldPass {
					b.StopTimer()
					n := min(coldPass, b.N-done)
					disk := c.diskTime(b, done%coldSlots)
					used, start := processorTime(b), time.Now()
					b.StartTimer()
					var group sync.WaitGroup
					var next atomic.Int32
					for range readers {
						group.Go(func() {
							for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
								if err := way.read(c, (done+i)*29%coldSlots); err != nil {
									b.Error(err)
								}
							}
						})
					}
					group.Wait()
					b.StopTimer()
					took := time.Since(start)
					processor += processorTime(b) - used
					if n == coldPass {
						ratios = append(ratios, disk.Seconds()/took.Seconds())
					}
					c.cool(b)
				}
				slices.Sort(ratios)
				if len(ratios) > 0 {
					b.ReportMetric(100*ratios[len(ratios)/2], "%disk")
				}
				b.ReportMetric(processor.Seconds()/(float64(b.N)*float64(benchGeometry.SlotBytes)/1e9), "cpu-s/GB")
			})
		}
	}
}

// BenchmarkEvict drops slots that were brought a while ago, as a ledger does. What has only just been brought takes 0.5 ms more: some
// of its pages are still on their way to the kernel's lists, for which it asks all CPUs.
func BenchmarkEvict(b *testing.B) {
	dir, err := os.MkdirTemp(".", "tmp-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	for _, size := range []PageSize{HugePagesAuto, HugePagesNever} {
		b.Run("pages="+string(size), func(b *testing.B) {
			c := openCold(b, dir, size)
			defer c.store.Close()
			for i := range b.N {
				b.StopTimer()
				if _, err := c.Bring((i + coldSlots/2) % coldSlots); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := c.Evict(i % coldSlots); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
