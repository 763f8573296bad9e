package arena

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"

	"github.com/moepool/moepool/numa/hostinfo"
)

// memoryGroup is a control group of memory that a test made.
type memoryGroup struct {
	Dir     string
	Version int
}

// newMemoryGroup makes a group with a limit, of whichever version this host has.
func newMemoryGroup(t *testing.T, limit int64) memoryGroup {
	t.Helper()
	name := fmt.Sprintf("moepool-arena-test-%d-%d", os.Getpid(), rand.Uint32())
	var errs []error
	for _, g := range []memoryGroup{{filepath.Join("/sys/fs/cgroup/memory", name), 1}, {filepath.Join("/sys/fs/cgroup", name), 2}} {
		if g.Version == 2 { // where its parent hands it on
			_ = os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+memory"), 0)
		}
		if err := os.Mkdir(g.Dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(g.Dir); err != nil {
				t.Error(err)
			}
		})
		if err := os.WriteFile(filepath.Join(g.Dir, g.file("memory.limit_in_bytes", "memory.max")), fmt.Append(nil, limit), 0); err != nil {
			errs = append(errs, err)
			continue
		}
		return g
	}
	ciError(t, "no control group of memory can be made: %v", errors.Join(errs...))
	return memoryGroup{}
}

func (g memoryGroup) file(v1, v2 string) string {
	if g.Version == 1 {
		return v1
	}
	return v2
}

// number reads a file, or a field of it.
func (g memoryGroup) number(file, field string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(g.Dir, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if field != "" {
			rest, found := strings.CutPrefix(line, field+" ")
			if !found {
				continue
			}
			line = rest
		}
		return strconv.ParseInt(line, 10, 64)
	}
	return 0, fmt.Errorf("%s: no %q", file, field)
}

func (g memoryGroup) usage() (int64, error) {
	return g.number(g.file("memory.usage_in_bytes", "memory.current"), "")
}

// kills is how many processes of the group were killed for lack of memory.
func (g memoryGroup) kills() (int64, error) {
	return g.number(g.file("memory.oom_control", "memory.events"), "oom_kill")
}

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

// squeeze joins the group in ARENA_TEST_GROUP, brings slots in random order from several goroutines, and evicts some.
func squeeze(dir string) error {
	var g memoryGroup
	if err := json.Unmarshal([]byte(os.Getenv("ARENA_TEST_GROUP")), &g); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(g.Dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return err
	}
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
	if out.Start, err = g.usage(); err != nil {
		return err
	}
	var group errgroup.Group
	misses := make([]int, 4)
	const each = 25
	for i := range misses {
		group.Go(func() error {
			r := rand.New(rand.NewPCG(uint64(i), 9))
			for range each {
				slot := r.IntN(squeezedGeometry.Slots)
				hit, err := a.Bring(slot)
				if err != nil {
					return err
				}
				if !hit {
					misses[i]++
				}
				if xxhash.Sum64(a.Bytes(slot)) != a.slots[slot].sum.Load() {
					return fmt.Errorf("slot %d has other bytes", slot)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, n := range misses {
		out.Brought += each
		out.Misses += n
	}
	out.Counters = s.Counters()
	for slot := range squeezedGeometry.Slots {
		if err := a.Evict(slot); err != nil {
			return err
		}
	}
	const few = 4
	for slot := range few {
		if _, err := a.Bring(slot); err != nil {
			return err
		}
	}
	if out.Full, err = g.usage(); err != nil {
		return err
	}
	for slot := range few {
		if err := a.Evict(slot); err != nil {
			return err
		}
	}
	if out.Evicted, err = g.usage(); err != nil {
		return err
	}
	for at := 0; at < len(a.mapping); at += pageBytes {
		if resident, err := a.store.sys.resident(a.mapping[at : at+pageBytes]); err != nil || resident {
			out.Resident++
		}
	}
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

func runSqueezed(t *testing.T, dir string, g memoryGroup, more ...string) (out squeezed) {
	t.Helper()
	group, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(append(os.Environ(), "ARENA_TEST_ROLE=squeeze", "ARENA_TEST_DIR="+dir, "ARENA_TEST_GROUP="+string(group)), more...)
	c.Stderr = os.Stderr
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
				g := newMemoryGroup(t, limit)
				out := runSqueezed(t, dir, g, "ARENA_TEST_PAGES="+string(pages), "ARENA_TEST_LOCK="+lock)
				t.Logf("%+v", out)
				if kills, err := g.kills(); err != nil || kills != 0 {
					t.Errorf("%d processes were killed, %v", kills, err)
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
