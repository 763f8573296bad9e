package forecast

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// Cluster is what hosts.yaml describes.
type Cluster struct {
	Coordinator string `yaml:"coordinator"` // name of the host that it runs on; default: the first
	Hosts       []Host `yaml:"hosts"`
}

// Host is one host, or Count equal ones. A node has a worker of its own.
type Host struct {
	Name  string `yaml:"name"`
	Count int    `yaml:"count"` // default 1; with more, names get -1, -2, …
	Nodes int    `yaml:"nodes"` // NUMA nodes, default 1

	MemoryGiB   float64 `yaml:"memory_gib"`   // of a node, for experts
	ReadGBps    float64 `yaml:"read_gbps"`    // of a node: "moepool bench machine", test read
	ComputeGOPS float64 `yaml:"compute_gops"` // of a node: the same, test int8 (products of bytes)
	DiskGBps    float64 `yaml:"disk_gbps"`    // of the host, for experts that don't fit into memory; default 1

	RoundTripUS float64 `yaml:"round_trip_us"` // to the coordinator and back, over NATS; default 100 on the coordinator's host, else 200
	NetworkGbit float64 `yaml:"network_gbit"`  // to the coordinator, gigabits a second; default 10; not used on the coordinator's host
}

const (
	maxHosts = 4096
	maxNodes = 64
)

// ParseCluster reads hosts.yaml; unknown keys are errors, sizes are checked. file names it in errors.
func ParseCluster(file string, text []byte) (*Cluster, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	c := &Cluster{}
	if err := d.Decode(c); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// check validates and fills defaults.
func (c *Cluster) check() error {
	if len(c.Hosts) == 0 {
		return errors.New("no hosts")
	}
	if c.Coordinator == "" {
		c.Coordinator = c.Hosts[0].Name
	}
	total, found, names := 0, false, map[string]bool{}
	for i := range c.Hosts {
		h := &c.Hosts[i]
		if h.Name == "" {
			return fmt.Errorf("host %d has no name", i+1)
		}
		if names[h.Name] {
			return fmt.Errorf("two hosts are named %s", h.Name)
		}
		names[h.Name] = true
		local := h.Name == c.Coordinator
		found = found || local
		h.Count, h.Nodes = max(h.Count, 1), max(h.Nodes, 1)
		if h.Nodes > maxNodes || h.Count > maxHosts {
			return fmt.Errorf("host %s: %d hosts of %d nodes; at most %d and %d are possible", h.Name, h.Count, h.Nodes, maxHosts, maxNodes)
		}
		if total += h.Count; total > maxHosts {
			return fmt.Errorf("more than %d hosts", maxHosts)
		}
		if h.DiskGBps == 0 {
			h.DiskGBps = 1
		}
		if h.NetworkGbit == 0 {
			h.NetworkGbit = 10
		}
		if h.RoundTripUS == 0 {
			h.RoundTripUS = 200
			if local {
				h.RoundTripUS = 100
			}
		}
		for key, v := range map[string]float64{"memory_gib": h.MemoryGiB, "read_gbps": h.ReadGBps, "compute_gops": h.ComputeGOPS,
			"disk_gbps": h.DiskGBps, "round_trip_us": h.RoundTripUS, "network_gbit": h.NetworkGbit} {
			if !(v > 0 && v < 1e9) {
				return fmt.Errorf("host %s: %s is %g, it must be above 0", h.Name, key, v)
			}
		}
	}
	if !found {
		return fmt.Errorf("the coordinator's host %q is none of the hosts", c.Coordinator)
	}
	return nil
}
