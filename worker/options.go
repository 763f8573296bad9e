package worker

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// Options describe a worker process.
type Options struct {
	// ID names the worker in its cluster and its arena folder; "" is DefaultID(Host, Node, Index, PerNode).
	ID string

	// Host names the host in the default id and for the placement, which counts workers of one host as near each other; "" is its hostname.
	Host string

	// Cluster is the name in the subjects; "" is transport.DefaultCluster.
	Cluster string

	// Connect says how to reach NATS.
	Connect transport.ConnectOptions

	// ModelDir is the checkpoint's folder on this host.
	ModelDir string

	// Checkpoint is the model where it is open already; Run closes it. nil: ModelDir is opened.
	Checkpoint *checkpoint.Checkpoint

	// Fetch brings a file of the checkpoint here that is absent (checkpoint.AbsentError) and attaches it; nil: all are here. It is called
	// when experts of that file are to be loaded.
	Fetch func(ctx context.Context, file string) error

	// Format and Parts are how experts are packed; both must equal the coordinator's. 0 parts is 1.
	Format kernels.Format
	Parts  int

	// Node is the NUMA node whose CPUs and memory the worker uses; cmd has bound the process to it (numa.ExecPinned). Negative
	// means no node: all allowed CPUs, pages where they fall.
	Node int

	// Index and PerNode divide the node's cores where several workers share it: this is worker Index of PerNode. 0 per node is 1.
	Index, PerNode int

	// Kernels is the implementation to compute with; nil is the best that this CPU runs.
	Kernels *kernels.Set

	// Threads of the team; 0 is one for each physical core of this worker's share of the node.
	Threads int

	// ArenaDir is the folder under which arenas are kept; "" or "none": anonymous memory, no files.
	ArenaDir string

	// StrictNUMA makes less than 95 % of pages on the node an error after loading.
	StrictNUMA bool

	// Residency says how experts come into memory and leave it.
	Residency Residency

	// Lane offers coordinators of this host a unix socket for the tensor traffic (--lane local); else all goes over NATS.
	Lane bool

	// Leave makes the worker drain when it is closed: it says so in its beats and goes on serving until its coordinator lets it go, it has
	// nothing to serve any more, or DrainTimeout is over. nil: never.
	Leave <-chan struct{}

	// DrainTimeout is how long a worker that leaves may go on; 0 is DefaultDrainTimeout.
	DrainTimeout time.Duration

	// ParentPipe ends the worker when it gives EOF (children.ParentPipe); nil for one that was started by hand.
	ParentPipe *os.File

	// Log receives what a person should see; nil drops it.
	Log func(format string, args ...any)

	// Version is the build's, for the handshake's messages.
	Version string
}

// DefaultDrainTimeout leaves the others time to load what a leaving worker owns.
const DefaultDrainTimeout = 60 * time.Second

// validate fills defaults and says which option is wrong.
func (o *Options) validate() error {
	if o.ModelDir == "" {
		return fmt.Errorf("worker: no model folder given (--model)")
	}
	if o.Format == 0 {
		return fmt.Errorf("worker: no format of the experts given (--format)")
	}
	if o.Parts == 0 {
		o.Parts = 1
	}
	if o.Parts < 0 {
		return fmt.Errorf("worker: --parts %d: at least 1", o.Parts)
	}
	if o.PerNode == 0 {
		o.PerNode = 1
	}
	if o.PerNode < 0 || o.Index < 0 || o.Index >= o.PerNode {
		return fmt.Errorf("worker: index %d of %d workers per node: valid are 0 to %d", o.Index, o.PerNode, o.PerNode-1)
	}
	if o.Threads < 0 {
		return fmt.Errorf("worker: --threads %d: at least 1, or 0 for one per physical core", o.Threads)
	}
	if o.DrainTimeout < 0 {
		return fmt.Errorf("worker: --drain-timeout %v: a time, 0s for the default of %v", o.DrainTimeout, DefaultDrainTimeout)
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = DefaultDrainTimeout
	}
	if err := o.Residency.validate(); err != nil {
		return err
	}
	if o.Cluster == "" {
		o.Cluster = transport.DefaultCluster
	}
	if !transport.ValidName(o.Cluster) {
		return fmt.Errorf("worker: cluster name %q: letters, digits, - and _ only, at most 64", o.Cluster)
	}
	if o.Host == "" {
		o.Host = hostName()
	}
	if o.ID == "" {
		o.ID = DefaultID(o.Host, o.Node, o.Index, o.PerNode)
	}
	if !transport.ValidName(o.ID) {
		return fmt.Errorf("worker: id %q: letters, digits, - and _ only, at most 64 (--id)", o.ID)
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Kernels == nil {
		set, err := kernels.Select("")
		if err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		o.Kernels = set
	}
	return nil
}

// longestHost leaves room in an id for what follows the host's name.
const longestHost = 40

// hostName is the name of this host.
func hostName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "unknown"
	}
	return host
}

// DefaultID is HOST-nodeN, with -I behind it where several workers share the node; "" is this host's name. Characters of the name that an id
// can't have become "-".
func DefaultID(host string, node, index, perNode int) string {
	if host == "" {
		host = hostName()
	}
	id := fmt.Sprintf("%s-node%d", cleanHost(host), max(node, 0))
	if perNode > 1 {
		id += fmt.Sprintf("-%d", index)
	}
	return id
}

// cleanHost makes a host's name part of an id.
func cleanHost(host string) string {
	if host == "" {
		return "host"
	}
	host = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '-'
	}, host)
	return host[:min(len(host), longestHost)]
}
