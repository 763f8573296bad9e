package forecast

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

// testModel has Qwen3-30B-A3B's experts in q8, in 4 layers.
func testModel(parts int) *Model {
	m := &Model{TopK: 8, Hidden: 2048, Quantized: true, DenseBytes: 100e6, DenseWeights: 100e6, PositionBytes: 8192}
	m.Layers, m.Experts, m.Parts = []int{0, 1, 2, 3}, 128, parts
	for range parts {
		m.PartBytes = append(m.PartBytes, int64(4.9e6)/int64(parts))
		m.PartWeights = append(m.PartWeights, 3*2048*768/int64(parts))
	}
	return m
}

func cluster(t testing.TB, text string) *Cluster {
	t.Helper()
	c, err := ParseCluster("hosts.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func compute(t testing.TB, m *Model, c *Cluster, o Options) *Forecast {
	t.Helper()
	f, err := Compute(m, c, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const host = "memory_gib: 100, read_gbps: 50, compute_gops: 5000"

// TestSlowestWorker: with whole experts and one row the slowest of 2, 4, 8 workers holds 5.0, 3.5 and 2.5 of 8 experts (expectation of the
// largest cell of a random choice).
func TestSlowestWorker(t *testing.T) {
	t.Parallel()
	for workers, want := range map[int]float64{1: 8, 2: 5.0, 4: 3.5, 8: 2.5} {
		f := compute(t, testModel(1), cluster(t, fmt.Sprintf("hosts: [{name: a, count: %d, %s}]", workers, host)), Options{Rows: 1, Trials: 1000})
		if got := f.Slowest * 8 / float64(workers); math.Abs(got-want) > 0.15 {
			t.Errorf("%d workers: the slowest holds %.2f of 8 experts, want about %.1f", workers, got, want)
		}
	}
	// Parts over the nodes of one host balance perfectly.
	f := compute(t, testModel(2), cluster(t, "hosts: [{name: a, nodes: 2, "+host+"}]"), Options{Rows: 1})
	if math.Abs(f.Slowest-1) > 1e-9 {
		t.Errorf("two parts on two nodes: the slowest has %.3f of an even share", f.Slowest)
	}
}

// TestTerms: each term by hand, for one worker on the coordinator's host.
func TestTerms(t *testing.T) {
	t.Parallel()
	m := testModel(1)
	f := compute(t, m, cluster(t, "hosts: [{name: a, "+host+", round_trip_us: 50}]"), Options{Rows: 1, Context: 1000, Reach: 0.5, PerWorkerUS: 10})
	experts := float64(8 * m.PartBytes[0])
	want := Step{Dense: 100e6 / 25e9, Attention: 8192e3 / 25e9, Coordinator: 4 * 10e-6, Network: 4 * 50e-6, Memory: 4 * experts / 25e9}
	for name, pair := range map[string][2]float64{"dense": {f.Step.Dense, want.Dense}, "attention": {f.Step.Attention, want.Attention},
		"coordinator": {f.Step.Coordinator, want.Coordinator}, "network": {f.Step.Network, want.Network}, "memory": {f.Step.Memory, want.Memory},
		"compute": {f.Step.Compute, 0}, "disk": {f.Step.Disk, 0}, "tokens/s": {f.TokensPerSecond, 1 / want.Seconds()}} {
		if math.Abs(pair[0]-pair[1]) > 1e-9*math.Abs(pair[1]) {
			t.Errorf("%s: %g, want %g", name, pair[0], pair[1])
		}
	}
	if f.NetworkBytes != 0 || f.ReadBytes != int64(4*experts) || len(f.Notes) != 0 {
		t.Errorf("%+v", f)
	}
	// Two workers on another host: one row of 2048 codes, 32 scales and 2048 sums of 4 bytes to and from each, in each layer that needs it.
	two := Options{Rows: 1, Trials: 400}
	f = compute(t, m, cluster(t, "hosts: [{name: a, "+host+"}, {name: b, "+host+"}]"), two)
	if most := int64(4 * (2048 + 4*32 + 4*2048)); f.NetworkBytes > most || f.NetworkBytes < most*98/100 {
		t.Errorf("%d bytes over the network, want nearly %d", f.NetworkBytes, most)
	}
}

// TestDisk: what doesn't fit is read from the disk, which is said.
func TestDisk(t *testing.T) {
	t.Parallel()
	m := testModel(1)
	half := fmt.Sprintf("memory_gib: %.17g", float64(m.ExpertBytes())/2/(1<<30))
	f := compute(t, m, cluster(t, "hosts: [{name: a, "+half+", read_gbps: 50, compute_gops: 5000, disk_gbps: 2}]"), Options{Rows: 1})
	if w := f.Workers[0]; math.Abs(w.Resident-0.5) > 1e-6 || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "the rest is read from disks") {
		t.Fatalf("%+v %v", w, f.Notes)
	}
	if want := 4 * 8 * float64(m.PartBytes[0]) / 2 / 2e9; math.Abs(f.Step.Disk-want) > 1e-4*want {
		t.Errorf("disk %g s, want %g", f.Step.Disk, want)
	}
}

// TestBetterHosts: a faster part never makes a slower forecast, and the same seed gives the same one.
func TestBetterHosts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := Host{Name: "a", Count: rapid.IntRange(1, 5).Draw(t, "hosts"), Nodes: rapid.IntRange(1, 2).Draw(t, "nodes"), MemoryGiB: 1,
			ReadGBps: rapid.Float64Range(5, 500).Draw(t, "read"), ComputeGOPS: rapid.Float64Range(100, 1e5).Draw(t, "compute"),
			DiskGBps: rapid.Float64Range(0.1, 10).Draw(t, "disk"), RoundTripUS: rapid.Float64Range(10, 2000).Draw(t, "round trip"),
			NetworkGbit: rapid.Float64Range(1, 400).Draw(t, "network")}
		o := Options{Rows: rapid.SampledFrom([]int{1, 8, 64}).Draw(t, "rows"), Trials: 3, Skew: rapid.SampledFrom([]float64{0, 1}).Draw(t, "skew"),
			Replicas: rapid.IntRange(1, 3).Draw(t, "replicas")}
		forecast := func(h Host) *Forecast {
			c := &Cluster{Hosts: []Host{h}}
			if err := c.check(); err != nil {
				t.Fatal(err)
			}
			f, err := Compute(testModel(1), c, o)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		before := forecast(h)
		if again := forecast(h); again.Step != before.Step {
			t.Fatalf("%+v, then %+v", before.Step, again.Step)
		}
		better := h
		switch rapid.IntRange(0, 4).Draw(t, "what") {
		case 0:
			better.ReadGBps *= 2
		case 1:
			better.ComputeGOPS *= 2
		case 2:
			better.DiskGBps *= 2
		case 3:
			better.RoundTripUS /= 2
		case 4:
			better.NetworkGbit *= 2
		}
		if after := forecast(better); after.Step.Seconds() > before.Step.Seconds()*(1+1e-9) {
			t.Fatalf("%+v took %+v, %+v takes %+v", h, before.Step, better, after.Step)
		}
		total := int64(0)
		for _, w := range before.Workers {
			total += w.Experts
		}
		if total < before.ExpertBytes {
			t.Fatalf("workers hold %d of %d bytes", total, before.ExpertBytes)
		}
	})
}

func TestClusterErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "it is empty",
		"hosts: []":                           "no hosts",
		"hosts: [{name: a, speed: 1}]":        "speed",
		"hosts: [{memory_gib: 1}]":            "host 1 has no name",
		"hosts: [{name: a, memory_gib: 1}]":   "must be above 0",
		"hosts: [{name: a, read_gbps: .nan}]": "must be above 0",
		"hosts: [{name: a, count: 5000}]":     "at most 4096",
		"{coordinator: x, hosts: [{name: a, " + host + "}]}":        "none of the hosts",
		"hosts: [{name: a, " + host + "}, {name: a, " + host + "}]": "two hosts are named a",
	} {
		if _, err := ParseCluster("h.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "h.yaml: ") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, o := range []Options{{}, {Rows: 1, Skew: -1}, {Rows: 1, Context: -1}, {Rows: 1, Reach: 2}, {Rows: 1, Trials: -1}, {Rows: 1, Skew: math.NaN()}} {
		if _, err := Compute(testModel(1), cluster(t, "hosts: [{name: a, "+host+"}]"), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
