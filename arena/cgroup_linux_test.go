package arena

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"

	"github.com/moepool/moepool/internal/lowmemory"
	"github.com/moepool/moepool/numa/hostinfo"
)

// squeezed is what the other process of TestMemoryLimit and TestEvictFrees saw.
type squeezed struct {
	Limit    int64 // that hostinfo reads
	RssAnon  int64
	Brought  int
	Misses   int
	Start    int64 // usage of the group after opening
	Full     int64 // with the slots of the last step resident
	Evicted  int64 // after they were evicted
	Resident int   // pages of slots and of what lies between them, after all were evicted
	Counters Counters
	Reads    hostinfo.Reads
}

// squeezedGeometry has slots of two whole pieces and a tail.
var squeezedGeometry = Geometry{Slots: 40, SlotBytes: 2*hugePage + 700<<10 + 5}

// bringAtRandom brings slots in random order from several goroutines, so many each, and compares their bytes.
func bringAtRandom(a *Arena, goroutines, each int) (brought, misses int, err error) {
	var group errgroup.Group
	var missed atomic.Int64
	for i := range goroutines {
		group.Go(func() error {
			r := rand.New(rand.NewPCG(uint64(i), 9))
			for range each {
				slot := r.IntN(a.Geometry().Slots)
				hit, err := a.Bring(slot)
				if err != nil {
					return err
				}
				if !hit {
					missed.Add(1)
				}
				if xxhash.Sum64(a.Bytes(slot)) != a.slots[slot].sum.Load() {
					return fmt.Errorf("slot %d has other bytes", slot)
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return goroutines * each, int(missed.Load()), err
}

// evictAll evicts all slots, until no page of them or of what lies between is in memory; it gives up after evictLimit and says how many are.
func evictAll(a *Arena) (pages int, err error) {
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		for slot := range a.slots {
			if err := a.Evict(slot); err != nil {
				return 0, err
			}
		}
		if pages, err = lowmemory.Resident(a.mapping); err != nil {
			return 0, err
		}
		if pages == 0 || time.Since(begin) > evictLimit {
			return pages, nil
		}
	}
}

// squeeze runs in a memory group: it brings slots in random order from several goroutines, and evicts some.
func squeeze(dir string) error {
	s, err := OpenStore(Options{Dir: dir, Identity: testIdentity, HugePages: PageSize(os.Getenv("ARENA_TEST_PAGES")), MLock: os.Getenv("ARENA_TEST_LOCK") != ""})
	if err != nil {
		return err
	}
	defer s.Close()
	a, err := s.Open(testKey, squeezedGeometry)
	if err != nil {
		return err
	}
	var out squeezed
	out.Limit = hostinfo.This().Cgroup().Limit
	usage := func() int64 { return hostinfo.This().Cgroup().Usage }
	out.Start = usage()
	if out.Brought, out.Misses, err = bringAtRandom(a, 4, 25); err != nil {
		return err
	}
	out.Counters = s.Counters()
	if _, err = evictAll(a); err != nil {
		return err
	}
	const few = 4
	for slot := range few {
		if _, err := a.Bring(slot); err != nil {
			return err
		}
	}
	out.Full = usage()
	if out.Resident, err = evictAll(a); err != nil {
		return err
	}
	out.Evicted = usage()
	memory, err := hostinfo.This().Process(hostinfo.Self)
	if err != nil {
		return err
	}
	out.RssAnon = memory.RssAnon
	if out.Reads, err = hostinfo.ReadsOfThisProcess(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func runSqueezed(t *testing.T, dir string, g *lowmemory.Group, more ...string) (out squeezed) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(append(os.Environ(), "ARENA_TEST_ROLE=squeeze", "ARENA_TEST_DIR="+dir), more...)
	c.Stderr = os.Stderr
	g.Wrap(c)
	text, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return out
}

// A process whose slots are four times what its control group allows brings them all the same, from several goroutines, and isn't
// killed; evicted slots leave the group's account.
func TestMemoryLimit(t *testing.T) {
	const limit = 48 << 20
	all := make([]int, squeezedGeometry.Slots)
	for i := range all {
		all[i] = i
	}
	dir, path := packed(t, squeezedGeometry, all...)
	for _, pages := range []PageSize{HugePagesAuto, HugePagesNever} {
		for _, lock := range []string{"", "1"} {
			t.Run(fmt.Sprintf("pages=%s/lock=%s", pages, lock), func(t *testing.T) {
				dropCache(t, path) // what this process has cached is not the group's
				g := lowmemory.ForTest(t, limit)
				out := runSqueezed(t, dir, g, "ARENA_TEST_PAGES="+string(pages), "ARENA_TEST_LOCK="+lock)
				t.Logf("%+v", out)
				if used, err := g.Usage(); err != nil || used.OOMKills != 0 {
					t.Errorf("%d processes were killed, %v", used.OOMKills, err)
				}
				l, err := newLayout(squeezedGeometry)
				if err != nil {
					t.Fatal(err)
				}
				if out.Limit != limit || out.Brought != 100 || out.Misses < squeezedGeometry.Slots || out.Counters.TornSlots != 0 {
					t.Errorf("%+v", out)
				}
				if out.RssAnon > limit*3/4 { // most of it is the race detector's, where that is on
					t.Errorf("%d bytes of anonymous memory", out.RssAnon)
				}
				if out.Reads.Bytes < int64(out.Misses)*int64(hugePage) {
					t.Errorf("%d misses, but only %d bytes were read", out.Misses, out.Reads.Bytes)
				}
				const slack = 2 << 20 // pages of page tables, of what the runtime took meanwhile, of the kernel's batches
				if out.Full-out.Evicted < 4*l.packed-slack || out.Resident != 0 {
					t.Errorf("4 slots of %d bytes: the group held %d bytes before they were evicted and %d after, %d pages are resident", l.packed, out.Full, out.Evicted, out.Resident)
				}
				if lock != "" && (out.Counters.LockedBytes == 0 || out.Counters.LockRefusedBytes == 0 || out.Counters.LockedBytes > limit) {
					t.Errorf("%+v", out.Counters)
				}
			})
		}
	}
}
