//go:build linux

package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// axis is one thing that must not change the bits of logits, with its values in words.
type axis struct {
	name   string
	values []string
}

// The axes of DESIGN §2 that a cluster is started with; prefill chunks and company are tried within each cluster.
var clusterAxes = []axis{
	{"workers", []string{"1", "2", "3"}},
	{"kernels", matrixKernels()},
	{"memory", []string{"arena", "anonymous"}},
	{"threads", []string{"1", "2", "4"}},
	{"lane", []string{transport.LaneNATS, transport.LaneLocal}},
}

func matrixKernels() []string {
	if underRace {
		return kernels.Available()[:1]
	}
	if kernels.AMXEmulated() && slices.Contains(kernels.Available(), "amx") { // .ci/amxtrap: an instruction costs some 10 µs
		return []string{"generic", "amx"}
	}
	return kernels.Available()
}

func matrixFormats() []kernels.Format {
	if underRace {
		return []kernels.Format{kernels.Q8}
	}
	return []kernels.Format{kernels.BF16, kernels.Q8, kernels.Q4, kernels.MXFP4}
}

// variant is a way to feed the same tokens.
type variant struct {
	chunk   int // 0 is whole
	company bool
}

var variants = []variant{{0, false}, {5, false}, {1, false}, {0, true}, {5, true}, {1, true}}

// TestSameBits computes the logits of the same tokens in every combination (the full product on one family in bf16 and q8, every pair of
// values otherwise) and compares them with ==, for each format and number of parts.
func TestSameBits(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for _, model := range []struct {
		name string
		full bool
	}{{"qwen3_moe", true}, {"qwen2_moe", false}, {"mixtral", false}} {
		dir := synthModel(t, model.name)
		for _, format := range matrixFormats() {
			for parts := 1; parts <= 3; parts++ {
				combinations := pairwise(clusterAxes)
				if model.full && !format.FourBits() && !testing.Short() {
					combinations = fullProduct()
				}
				t.Run(fmt.Sprintf("%s/%v/parts=%d", model.name, format, parts), func(t *testing.T) {
					t.Parallel()
					assertNoEmptyPart(t, format, 160, parts)
					sameBits(t, server, dir, format, "", parts, combinations, 26)
				})
			}
		}
	}
}

// TestSameBitsFixtures does the same on the fixtures' small models, whose experts are one unit wide.
func TestSameBitsFixtures(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for _, name := range []string{"qwen3_moe", "qwen2_moe_dense_mix", "mixtral_swa"} {
		for _, format := range matrixFormats() {
			t.Run(fmt.Sprintf("%s/%v", name, format), func(t *testing.T) {
				t.Parallel()
				sameBits(t, server, tiny(name), format, "", 1, pairwise(clusterAxes), 33)
			})
		}
	}
}

// TestSameBitsKVInt8 does the same with keys and values in int8, over more than one block of keys.
func TestSameBitsKVInt8(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for _, name := range []string{"qwen3_moe", "mixtral_swa"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sameBits(t, server, tiny(name), kernels.Q8, attention.Int8, 1, pairwise(clusterAxes), 70)
		})
	}
}

func sameBits(t *testing.T, server *transport.Server, dir string, format kernels.Format, kv attention.Format, parts int, combinations []map[string]string, length int) {
	arena := t.TempDir()
	var want []float32
	var first string
	for _, values := range combinations {
		s := setup{model: dir, format: format, kv: kv, parts: parts, kernels: values["kernels"], lane: values["lane"], server: server}
		fmt.Sscan(values["workers"], &s.workers)
		fmt.Sscan(values["threads"], &s.threads)
		if values["memory"] == "arena" {
			s.arena = arena // shared by all combinations: most find their experts packed by another
		}
		t.Run(s.String(), func(t *testing.T) {
			c := s.open(t)
			for _, v := range variants {
				got := feed(t, c, tokens(length, 512, 7), v)
				name := fmt.Sprintf("%v/chunk=%d/company=%v", s, v.chunk, v.company)
				if want == nil {
					want, first = got, name
					assertAlive(t, want)
				} else if at := firstDifference(want, got); at >= 0 {
					t.Fatalf("logit %d of %s is %v (%#x), of %s %v (%#x)", at, name, got[at], math.Float32bits(got[at]),
						first, want[at], math.Float32bits(want[at]))
				}
			}
		})
	}
}

// feed computes the logits of all positions of the tokens.
func feed(t *testing.T, c *coordinator.Coordinator, ids []int32, v variant) []float32 {
	t.Helper()
	seq, err := c.Engine.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer seq.Close()
	other, err := c.Engine.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	size := v.chunk
	if size == 0 {
		size = len(ids)
	}
	var logits []float32
	for step := 0; len(ids) > 0; step++ {
		n := min(size, len(ids))
		phase := budget.Prefill
		if size == 1 {
			phase = budget.Decode
		}
		chunks := []engine.Chunk{{Sequence: seq, Tokens: ids[:n], Phase: phase, Logits: engine.AllLogits}}
		if v.company {
			neighbour := engine.Chunk{Sequence: other, Tokens: tokens(3, 512, uint64(100+step)), Phase: budget.Prefill, Logits: engine.NoLogits}
			chunks = append([]engine.Chunk{neighbour}, chunks...)
		}
		out, err := c.Engine.Step(t.Context(), chunks)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range out {
			if o.Err != nil {
				t.Fatal(o.Err)
			}
		}
		logits = append(logits, out[len(out)-1].Logits...)
		ids = ids[n:]
	}
	return logits
}

// tokens gives n ids below vocabulary from a seed.
func tokens(n, vocabulary int, seed uint64) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		seed = seed*6364136223846793005 + 1442695040888963407
		ids[i] = int32((seed >> 33) % uint64(vocabulary))
	}
	return ids
}

func firstDifference(a, b []float32) int {
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}

// assertAlive fails on logits from which a difference could not be seen.
func assertAlive(t *testing.T, logits []float32) {
	t.Helper()
	distinct := map[float32]bool{}
	for _, l := range logits {
		distinct[l] = true
	}
	if len(distinct) < len(logits)/4 {
		t.Fatalf("only %d distinct values among %d logits", len(distinct), len(logits))
	}
}

func assertNoEmptyPart(t *testing.T, format kernels.Format, intermediate, parts int) {
	t.Helper()
	for p := range parts {
		if from, to := kernels.PartRange(format, intermediate, parts, p); to <= from {
			t.Fatalf("part %d of %d is empty", p, parts)
		}
	}
}

func synthModel(t testing.TB, family string) string {
	t.Helper()
	dir := t.TempDir()
	if err := synth.Write(dir, synth.Tiny(family), nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fullProduct is the product of all axes but the lane, whose values take turns: twice as many runs would say little more.
func fullProduct() []map[string]string {
	lane := clusterAxes[len(clusterAxes)-1]
	all := product(clusterAxes[:len(clusterAxes)-1])
	for i := range all {
		all[i][lane.name] = lane.values[i%len(lane.values)]
	}
	return all
}

// product gives every combination of the axes' values.
func product(axes []axis) []map[string]string {
	all := []map[string]string{{}}
	for _, a := range axes {
		var next []map[string]string
		for _, c := range all {
			for _, v := range a.values {
				with := map[string]string{a.name: v}
				for name, value := range c {
					with[name] = value
				}
				next = append(next, with)
			}
		}
		all = next
	}
	return all
}

// pairwise gives few combinations in which every pair of values of two axes occurs: greedily the one with most new pairs.
func pairwise(axes []axis) []map[string]string {
	all := product(axes)
	seen := map[string]bool{}
	fresh := func(c map[string]string, mark bool) int {
		n := 0
		for i, a := range axes {
			for _, b := range axes[i+1:] {
				pair := a.name + c[a.name] + b.name + c[b.name]
				if !seen[pair] {
					n++
				}
				if mark {
					seen[pair] = true
				}
			}
		}
		return n
	}
	var chosen []map[string]string
	for {
		best, most := -1, 0
		for i, c := range all {
			if n := fresh(c, false); n > most {
				best, most = i, n
			}
		}
		if best < 0 {
			return chosen
		}
		fresh(all[best], true)
		chosen = append(chosen, all[best])
	}
}

// tiny is the folder of a fixture.
func tiny(name string) string { return "../../testdata/tiny/" + name }

func TestMain(m *testing.M) { os.Exit(testMain(m)) }
