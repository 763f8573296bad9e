// Package numa owns topology, CPU affinity, memory policy and page placement of this host. It must not know what the memory
// holds. Everything degrades to one node without permissions or on other platforms, and says so.
package numa

import "io/fs"

// Node is one NUMA node that is online.
type Node struct {
	ID          int
	CPUs        []int // online and allowed by this process's affinity mask, ascending; empty for a memory-only node
	Cores       []int // the first allowed CPU of each physical core, ascending
	MemoryBytes int64
	FreeBytes   int64
}

// Topology is what this process may use.
type Topology struct {
	Nodes   []Node // ascending by id; at least one
	Allowed []int  // the process's affinity mask
	Known   bool   // false where sysfs had nothing: one node with all CPUs is assumed
}

// Read gives the topology of this host.
func Read() (*Topology, error) { panic("skeleton") }

// ReadFrom reads a sysfs tree ("devices/system/node/...", "devices/system/cpu/...") with a given affinity mask.
func ReadFrom(sys fs.FS, allowed []int) (*Topology, error) { panic("skeleton") }

// Node finds a node that has CPUs; the error of an unknown one lists the valid ids.
func (t *Topology) Node(id int) (*Node, error) { panic("skeleton") }

// ComputeNodes are the nodes with at least one allowed CPU.
func (t *Topology) ComputeNodes() []Node { panic("skeleton") }

// Binding says what a process could and could not be bound to.
type Binding struct {
	Node     int
	CPUs     []int
	Affinity bool   // sched_setaffinity succeeded
	Policy   string // "bind", "preferred", or "none"
	Problems []string
}

// ExecPinned binds the calling thread to the node (affinity, task memory policy: preferred, or bind if strict) and replaces
// the process by argv with env; it returns only on error. The new image calls Bound.
func ExecPinned(n *Node, strict bool, argv, env []string) error { panic("skeleton") }

// Bound gives the binding under which this process was started by ExecPinned (verified against the kernel), or false.
func Bound() (*Binding, bool) { panic("skeleton") }

// Pages counts pages of memory by where they are.
type Pages struct {
	Local   int64 `json:"local"`  // on the wanted node
	Remote  int64 `json:"remote"` // on another
	Absent  int64 `json:"absent"` // not in memory
	Unknown int64 `json:"unknown"`
}

// Locate counts the pages of data (move_pages with no target).
func Locate(data []byte, node int) (Pages, error) { panic("skeleton") }

// Migrate populates data, moves what lies elsewhere to the node, and counts again.
func Migrate(data []byte, node int) (Pages, error) { panic("skeleton") }

// Prefer sets the VMA policy of a mapping (works for anonymous memory and tmpfs).
func Prefer(data []byte, node int, strict bool) error { panic("skeleton") }

// Permissions says which calls this process may make, tried for real.
type Permissions struct{ SetAffinity, SetMempolicy, Mbind, MovePages bool }

// Try finds out.
func Try() Permissions { panic("skeleton") }
