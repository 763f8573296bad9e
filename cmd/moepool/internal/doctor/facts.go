package doctor

import (
	"context"
	"fmt"
	"runtime"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/numa/hostinfo"
	"github.com/moepool/moepool/transport"
)

// Facts are what this host is and allows. What can't be read is zero.
type Facts struct {
	System   string            `json:"system"` // GOOS/GOARCH
	Kernel   string            `json:"kernel"`
	CPU      string            `json:"cpu"`
	Topology *numa.Topology    `json:"topology"`
	MemNodes []int             `json:"memory_nodes"` // of the cpuset; empty if unknown
	Memory   hostinfo.Memory   `json:"memory"`
	Cgroup   hostinfo.Cgroup   `json:"cgroup"`
	Calls    numa.Permissions  `json:"calls"`
	Features []kernels.Feature `json:"cpu_features"`
	Runs     []string          `json:"kernels_available"` // best first
	Chosen   string            `json:"kernels_chosen"`
	Emulated bool              `json:"amx_emulated"`
	Refused  string            `json:"amx_refused,omitempty"` // why AMX may not be used that the CPU has
	HugeAnon string            `json:"huge_pages_anonymous"`  // "always", "madvise", "never"
	HugeTmp  string            `json:"huge_pages_tmpfs"`
	MaxMaps  int               `json:"max_map_count"`
	Lock     int64             `json:"memlock"` // bytes; -1 is unlimited
	Balances bool              `json:"numa_balancing"`
	Threads  int               `json:"threads"` // GOMAXPROCS: CPUs within affinity and quota
	Arena    ArenaFacts        `json:"arena"`
	// Lanes are round trips of a layer's empty work; zero if they could not be measured.
	Lanes transport.LaneTimes `json:"lanes"`
}

// ArenaFacts are about the folder of arenas.
type ArenaFacts struct {
	Dir        string           `json:"dir"` // "": anonymous memory
	Error      string           `json:"error,omitempty"`
	Space      arena.Space      `json:"space"`
	Speed      float64          `json:"mb_per_s"` // sequential reads, MB/s; 0 if not measured
	SpeedError string           `json:"speed_error,omitempty"`
	Mapped     *hostinfo.Mapped `json:"mapped,omitempty"` // by running workers
}

// inMemory says whether files of the folder are memory themselves.
func (a ArenaFacts) inMemory() bool {
	return a.Space.FileSystem == "tmpfs" || a.Space.FileSystem == "hugetlbfs"
}

// usable says whether files can be made in the folder.
func (a ArenaFacts) usable() bool { return a.Dir != "" && a.Error == "" && a.Space.Writable }

// available is the memory that can still be taken in bytes, and what sets the bound; 0 if unknown.
func (f *Facts) available() (bytes int64, why string) {
	bytes, why = f.Memory.Available, "available on this host"
	if a := f.Cgroup.Available; a != hostinfo.Unlimited && (bytes == 0 || a < bytes) {
		bytes, why = max(a, 1), fmt.Sprintf("left of the cgroup's limit of %s", bytesize.Text(f.Cgroup.Limit))
	}
	return bytes, why
}

func gather(ctx context.Context, o *Options) (*Facts, error) {
	topology, err := numa.Read()
	if err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	host := hostinfo.This()
	f := &Facts{
		System: runtime.GOOS + "/" + runtime.GOARCH, Kernel: host.Kernel(), CPU: host.CPUModel(),
		Topology: topology, Cgroup: host.Cgroup(), Calls: numa.Try(),
		Features: kernels.Features(), Runs: kernels.Available(), Chosen: o.Kernels.Name(), Emulated: kernels.AMXEmulated(),
		Balances: host.NUMABalancing(), Threads: runtime.GOMAXPROCS(0),
	}
	if err := kernels.AMXRefused(); err != nil {
		f.Refused = err.Error()
	}
	f.HugeAnon, f.HugeTmp = host.HugePages()
	// Each of these has no value on some kernels, containers or systems: that is a fact too, zero.
	f.Memory, _ = host.Memory()
	f.MemNodes, _ = host.AllowedNodes()
	f.MaxMaps, _ = host.MaxMaps()
	f.Lock, _ = host.LockLimit()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.Lanes, _ = transport.MeasureLanes(ctx)
	f.Arena = gatherArena(o, host)
	return f, ctx.Err()
}

func gatherArena(o *Options, host hostinfo.Host) ArenaFacts {
	a := ArenaFacts{Dir: o.ArenaDir}
	if a.Dir == "" {
		return a
	}
	var err error
	if a.Space, err = arena.Check(a.Dir); err != nil {
		a.Error = err.Error()
		return a
	}
	if a.Space.Writable && o.SpeedBytes > 0 && !a.inMemory() {
		if a.Speed, err = arena.DiskSpeed(a.Space.Dir, o.SpeedBytes); err != nil {
			a.SpeedError = err.Error()
		}
	}
	a.Mapped = mappedBy(host, a.Dir)
	return a
}

// mappedBy sums up what the processes that can be looked into have mapped of a folder; nil if nothing.
func mappedBy(host hostinfo.Host, dir string) *hostinfo.Mapped {
	processes, err := host.Processes()
	if err != nil {
		return nil
	}
	var sum hostinfo.Mapped
	for _, pid := range processes {
		m, err := host.Mapped(pid, dir+"/")
		if err != nil {
			continue // it has ended, or is another user's
		}
		sum.Mappings += m.Mappings
		sum.Bytes += m.Bytes
		sum.Resident += m.Resident
		sum.Huge += m.Huge
	}
	if sum.Mappings == 0 {
		return nil
	}
	return &sum
}
