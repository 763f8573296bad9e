package arena

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/moepool/moepool/numa"
)

// pressed is what pressNode saw.
type pressed struct {
	Free    int64 // bytes of the node that were left to the slots
	Brought int
	Misses  int
	Pages   numa.Pages // of a slot that was just brought
}

// nodeFree is the free memory of a node in bytes.
func nodeFree(node int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/node/node%d/meminfo", node))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) { // Node 0 MemFree:  1234 kB
		if words := strings.Fields(line); len(words) == 5 && words[2] == "MemFree:" {
			n, err := strconv.ParseInt(words[3], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("node %d: no MemFree in %q", node, text)
}

// pressNode takes nearly all memory of the node that it is bound to, then brings slots that are twice what is left.
func pressNode(dir string) error {
	b, bound := numa.Bound()
	if !bound || len(b.Problems) > 0 {
		return fmt.Errorf("not bound: %+v", b)
	}
	var out pressed
	free, err := nodeFree(b.Node)
	if err != nil {
		return err
	}
	l, err := newLayout(squeezedGeometry)
	if err != nil {
		return err
	}
	left := int64(squeezedGeometry.Slots) * l.packed / 2
	if free < left+16<<20 {
		return fmt.Errorf("node %d has only %d bytes free", b.Node, free)
	}
	ballast, release, err := Anonymous(int(free-left), "a test's ballast")
	if err != nil {
		return err
	}
	defer release()
	for i := 0; i < len(ballast); i += pageBytes {
		ballast[i] = 1
	}
	if out.Free, err = nodeFree(b.Node); err != nil {
		return err
	}
	s, err := OpenStore(Options{Dir: dir, Identity: testIdentity})
	if err != nil {
		return err
	}
	defer s.Close()
	a, err := s.Open(testKey, squeezedGeometry)
	if err != nil {
		return err
	}
	if out.Brought, out.Misses, err = bringAtRandom(a, 3, 40); err != nil {
		return err
	}
	if _, err := a.Bring(0); err != nil {
		return err
	}
	if out.Pages, err = numa.Locate(a.Bytes(0), b.Node); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// Slots that are twice what a small node has left are brought by several threads, with the right bytes and on that node; the kernel
// takes back what it must, and kills nobody.
//
//	CGO_ENABLED=0 go test -exec 'numavm --timeout 300 --' -run NUMAPressure ./arena
func TestNUMAPressure(t *testing.T) {
	if os.Getenv("NUMAVM") != "1" {
		t.Skip("SKIPPED: needs small nodes: CGO_ENABLED=0 go test -exec 'numavm --' -run NUMA ./arena")
	}
	topology, err := numa.Read()
	if err != nil {
		t.Fatal(err)
	}
	node := topology.ComputeNodes()[1].ID
	all := make([]int, squeezedGeometry.Slots)
	for i := range all {
		all[i] = i
	}
	dir, path := packed(t, squeezedGeometry, all...)
	dropCache(t, path)
	if s, err := Check(dir); err != nil || s.FileSystem != "ext4" {
		t.Fatalf("%+v, %v", s, err)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "ARENA_TEST_ROLE=pin", "ARENA_TEST_NEXT=press", "ARENA_TEST_STRICT=1", "ARENA_TEST_DIR="+dir, fmt.Sprint("ARENA_TEST_NODE=", node))
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var out pressed
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	t.Logf("%+v", out)
	l, err := newLayout(squeezedGeometry)
	if err != nil {
		t.Fatal(err)
	}
	if want := (numa.Pages{Local: l.packed / int64(pageBytes)}); out.Pages != want {
		t.Errorf("pages %+v, want %+v", out.Pages, want)
	}
	if out.Brought != 120 || out.Misses < 60 {
		t.Errorf("%+v", out)
	}
}
