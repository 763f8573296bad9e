package arena

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/moepool/moepool/numa"
)

// roles are what this test's binary does as another process.
var roles = map[string]func(dir string) error{"hold": holdFolder, "pin": pinSelf, "place": placeSlots, "mlock": lockAs, "squeeze": squeeze, "press": pressNode}

const vmSlots = 3

var vmGeometry = Geometry{Slots: vmSlots, SlotBytes: hugePage + 300<<10 + 1}

// pinSelf binds this process to the node in ARENA_TEST_NODE, as a worker does (strictly, if ARENA_TEST_STRICT is set), and goes on in
// the role of ARENA_TEST_NEXT.
func pinSelf(string) error {
	topology, err := numa.Read()
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(os.Getenv("ARENA_TEST_NODE"))
	if err != nil {
		return err
	}
	node, err := topology.Node(id)
	if err != nil {
		return err
	}
	if err := os.Setenv("ARENA_TEST_ROLE", os.Getenv("ARENA_TEST_NEXT")); err != nil {
		return err
	}
	return numa.ExecPinned(node, os.Getenv("ARENA_TEST_STRICT") != "", os.Args, os.Environ())
}

// placed is where placeSlots finds the pages of all slots.
type placed struct {
	Brought  numa.Pages // after Bring, which reads from the disk what is not cached
	Migrated numa.Pages // after numa.Migrate
	Reread   numa.Pages // after Evict and Bring
	Counters Counters
}

// placeSlots fills the slots that are not valid, brings all and says where their pages are.
func placeSlots(dir string) error {
	b, bound := numa.Bound()
	if !bound || len(b.Problems) > 0 {
		return fmt.Errorf("not bound: %+v", b)
	}
	s, err := OpenStore(Options{Dir: dir, Identity: testIdentity})
	if err != nil {
		return err
	}
	defer s.Close()
	a, err := s.Open(testKey, vmGeometry)
	if err != nil {
		return err
	}
	var p placed
	for slot := range vmSlots {
		if !a.Valid(slot) {
			if err := a.Fill([]int{slot}, filler(1)); err != nil {
				return err
			}
		}
		if _, err := a.Bring(slot); err != nil {
			return err
		}
		for _, look := range []struct {
			into *numa.Pages
			how  func([]byte, int) (numa.Pages, error)
		}{{&p.Brought, numa.Locate}, {&p.Migrated, numa.Migrate}, {&p.Reread, numa.Locate}} {
			if look.into == &p.Reread {
				if err := a.Evict(slot); err != nil {
					return err
				}
				if _, err := a.Bring(slot); err != nil {
					return err
				}
			}
			pages, err := look.how(a.Bytes(slot), b.Node)
			if err != nil {
				return err
			}
			look.into.Add(pages)
		}
	}
	p.Counters = s.Counters()
	return json.NewEncoder(os.Stdout).Encode(p)
}

func placeOn(t *testing.T, node int, dir string) (p placed) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "ARENA_TEST_ROLE=pin", "ARENA_TEST_NEXT=place", "ARENA_TEST_DIR="+dir, fmt.Sprint("ARENA_TEST_NODE=", node))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return p
}

// The pages of slots that a process bound to a node fills, brings and brings again lie on that node; what the page cache holds
// elsewhere stays there until it is migrated.
//
//	CGO_ENABLED=0 go test -exec 'numavm --' -run NUMA ./arena
func TestNUMAPlacement(t *testing.T) {
	if os.Getenv("NUMAVM") != "1" {
		t.Skip("SKIPPED: needs two nodes: CGO_ENABLED=0 go test -exec 'numavm --' -run NUMA ./arena")
	}
	topology, err := numa.Read()
	if err != nil {
		t.Fatal(err)
	}
	nodes := topology.ComputeNodes()
	if len(nodes) < 2 {
		t.Fatalf("numavm has nodes %+v, want 2 with CPUs", topology.Nodes)
	}
	l, err := newLayout(vmGeometry)
	if err != nil {
		t.Fatal(err)
	}
	all := vmSlots * l.packed / int64(pageBytes)
	local, remote := numa.Pages{Local: all}, numa.Pages{Remote: all}
	for _, kind := range []string{"disk", "tmpfs", "anonymous"} {
		for _, own := range []int{0, 1} {
			dir := map[string]string{"disk": fmt.Sprint("/ext4/arena-", own), "tmpfs": fmt.Sprint("/tmp/arena-", own), "anonymous": "none"}[kind]
			mine, other := nodes[own].ID, nodes[1-own].ID
			p := placeOn(t, mine, dir)
			if p.Brought != local || p.Reread != local || p.Counters.PackedBytes == 0 || p.Counters.Fallbacks != 0 {
				t.Errorf("%s: filled on node %d: %+v", kind, mine, p)
			}
			if kind == "anonymous" {
				continue
			}
			// The page cache holds the file on the other node.
			p = placeOn(t, other, dir)
			if p.Brought != remote || p.Migrated != local || p.Counters.PackedBytes != 0 {
				t.Errorf("%s: filled on node %d, brought and migrated on node %d: %+v", kind, mine, other, p)
			}
			if p.Reread != local {
				t.Errorf("%s: brought again on node %d: %+v", kind, other, p)
			}
		}
	}
}
