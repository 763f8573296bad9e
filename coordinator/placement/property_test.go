package placement

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	godiff "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

func modelOf(t *rapid.T) Model {
	m := Model{Experts: rapid.IntRange(1, 40).Draw(t, "experts"), Parts: rapid.IntRange(1, 4).Draw(t, "parts")}
	m.Layers = rapid.SliceOfNDistinct(rapid.IntRange(0, 60), 1, 4, rapid.ID[int]).Draw(t, "layers")
	m.PartBytes = rapid.SliceOfN(rapid.Int64Range(1, 1<<30), m.Parts, m.Parts).Draw(t, "bytes")
	m.TopK = rapid.IntRange(0, m.Experts).Draw(t, "topk")
	return m
}

// workersOf draws workers whose memory, if it is known, is enough for the model with a little to spare, or more.
func workersOf(t *rapid.T, m Model, least int) []Worker {
	ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9_-]{1,8}`), least, 10, rapid.ID[string]).Draw(t, "ids")
	hosts, equal, known := rapid.IntRange(1, 5).Draw(t, "hosts"), rapid.Bool().Draw(t, "equal"), rapid.Bool().Draw(t, "known")
	var workers []Worker
	for i, id := range ids {
		w := Worker{ID: id, Host: fmt.Sprint("h", i%hosts), Node: i / hosts}
		if !equal {
			w.Bandwidth = rapid.SampledFrom([]float64{0, 1e9, 2e9, 3.7e10, 1e12}).Draw(t, "bandwidth")
		}
		if known {
			n := int64(len(ids))
			w.Capacity = modelBytes(m)/n + rapid.Int64Range(slices.Max(m.PartBytes), max(slices.Max(m.PartBytes), 2*modelBytes(m)/n)).Draw(t, "spare")
		}
		workers = append(workers, w)
	}
	return workers
}

func modelBytes(m Model) (total int64) {
	for _, b := range m.PartBytes {
		total += b
	}
	return total * int64(m.Experts) * int64(len(m.Layers))
}

func optionsOf(t *rapid.T, m Model) Options {
	o := Options{Replicas: rapid.IntRange(0, 4).Draw(t, "replicas"), Batches: rapid.SliceOfN(rapid.IntRange(1, 300), 0, 3).Draw(t, "batches")}
	if rapid.Bool().Draw(t, "counted") {
		o.Counts = map[int][]float64{}
		for _, layer := range m.Layers {
			o.Counts[layer] = rapid.SliceOfN(rapid.Float64Range(0, 1e6), m.Experts, m.Experts).Draw(t, "counts")
		}
		if rapid.Bool().Draw(t, "pairs") {
			o.Pairs = pairsOf(t, m, o.Counts)
		}
	}
	if rapid.Bool().Draw(t, "limited") {
		o.ReplicaBytes = rapid.Int64Range(1, modelBytes(m)).Draw(t, "replica bytes")
	}
	return o
}

// pairsOf draws which experts are chosen together.
func pairsOf(t *rapid.T, m Model, counts map[int][]float64) map[int][]float64 {
	r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "pairs seed")))
	all := map[int][]float64{}
	for layer, n := range counts {
		pairs := make([]float64, m.Experts*m.Experts)
		for a := range m.Experts {
			for b := range a + 1 {
				pairs[a*m.Experts+b] = min(n[a], n[b]) * r.Float64()
				pairs[b*m.Experts+a] = pairs[a*m.Experts+b]
			}
		}
		all[layer] = pairs
	}
	return all
}

// checkPlan is what holds for every plan.
func checkPlan(t *rapid.T, p *Plan, m Model, workers []Worker, o Options) {
	t.Helper()
	if err := p.Validate(m); err != nil {
		t.Fatal(err)
	}
	if len(p.Owned) != len(workers) {
		t.Fatalf("%d workers in the plan, there are %d", len(p.Owned), len(workers))
	}
	var all int64
	for _, w := range workers {
		bytes := p.Bytes(m, w.ID)
		all += bytes
		if _, ok := p.Owned[w.ID]; !ok || w.Capacity > 0 && bytes > w.Capacity {
			t.Fatalf("worker %s owns %d of %d bytes", w.ID, bytes, w.Capacity)
		}
	}
	if o.ReplicaBytes > 0 && all-modelBytes(m) > o.ReplicaBytes {
		t.Fatalf("replicas of %d bytes, %d are allowed", all-modelBytes(m), o.ReplicaBytes)
	}
	for _, owners := range p.Owners {
		for item, ids := range owners {
			if len(ids) > max(1, o.Replicas) {
				t.Fatalf("part %d has owners %v, %d are allowed", item, ids, o.Replicas)
			}
		}
	}
}

// changed draws what can happen to workers: some leave, others join.
func changed(t *rapid.T, epoch uint64, workers []Worker) []Worker {
	var after []Worker
	for _, w := range workers {
		if rapid.IntRange(0, 3).Draw(t, "leaves") > 0 {
			w.Capacity *= 3
			after = append(after, w)
		}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "joining") {
		after = append(after, Worker{ID: fmt.Sprint("NEW", epoch, "-", i), Host: fmt.Sprint("h", i), Capacity: workers[0].Capacity * 3})
	}
	if len(after) == 0 {
		after = append(after, Worker{ID: fmt.Sprint("LAST", epoch)})
	}
	return after
}

// TestPlans: every plan is one, keeps to the memory and the number of replicas, and doesn't depend on the order of workers; nor do plans that follow.
func TestPlans(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := modelOf(t)
		workers, o := workersOf(t, m, 1), optionsOf(t, m)
		for epoch := uint64(1); epoch < 4; epoch++ {
			shuffled := slices.Clone(workers)
			rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))).Shuffle(len(shuffled), func(i, j int) {
				shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
			})
			before := slices.Clone(shuffled)
			plan, err := Compute(epoch, m, workers, o)
			again, errAgain := Compute(epoch, m, shuffled, o)
			if fmt.Sprint(err) != fmt.Sprint(errAgain) {
				t.Fatalf("%v; in another order: %v", err, errAgain)
			}
			if d := godiff.Diff(before, shuffled); d != "" {
				t.Fatalf("the input was changed: %s", d)
			}
			if short := (*CapacityError)(nil); errors.As(err, &short) && epoch > 1 {
				return // those who left had the memory
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := godiff.Diff(plan, again); d != "" || plan.Epoch != epoch || !plan.Same(again) {
				t.Fatalf("epoch %d: %s", plan.Epoch, d)
			}
			checkPlan(t, plan, m, workers, o)
			o.Previous = plan
			workers = changed(t, epoch, workers)
		}
	})
}

// TestSimple: on one host, without anything observed, the part goes to the worker of its number.
func TestSimple(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := modelOf(t)
		n := rapid.IntRange(1, 12).Draw(t, "workers")
		var workers []Worker
		for i := range n {
			workers = append(workers, Worker{ID: fmt.Sprint("w", i+10), Node: i})
			if m.Parts == 1 {
				workers[i].Host = fmt.Sprint("h", i)
			}
		}
		plan, err := Compute(1, m, workers, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, layer := range m.Layers {
			for item, ids := range plan.Owners[layer] {
				if len(ids) != 1 || ids[0] != workers[item%n].ID {
					t.Fatalf("part %d belongs to %v, not to %s", item, ids, workers[item%n].ID)
				}
			}
		}
	})
}

// TestWholeExperts: a fresh plan keeps an expert on one host, spread over its workers, if there is room.
func TestWholeExperts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := modelOf(t)
		workers, o := workersOf(t, m, 1), optionsOf(t, m)
		equal := true
		hosts, size := map[string]string{}, map[string]int{}
		for i := range workers {
			workers[i].Capacity = 0
			hosts[workers[i].ID] = workers[i].Host
			size[workers[i].Host]++
			equal = equal && workers[i].Bandwidth == workers[0].Bandwidth
		}
		plan, err := Compute(1, m, workers, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, layer := range m.Layers {
			for e := range m.Experts {
				host, parts := hosts[plan.Owners[layer][e*m.Parts][0]], map[string]int{}
				for _, ids := range plan.Owners[layer][e*m.Parts : (e+1)*m.Parts] {
					if hosts[ids[0]] != host {
						t.Fatalf("expert %d of layer %d is on hosts %s and %s", e, layer, host, hosts[ids[0]])
					}
					parts[ids[0]]++
				}
				// Replicas of other parts count, too, when parts are spread, so that with them a worker may have one more.
				most := (m.Parts + size[host] - 1) / size[host]
				for id, n := range parts {
					if n > most && equal && o.Replicas < 2 && o.Counts == nil {
						t.Fatalf("worker %s has %d of %d parts of expert %d; its host has %d workers", id, n, m.Parts, e, size[host])
					}
				}
			}
		}
	})
}

// TestReplicaForEverything: with memory for it, two owners each, on two hosts if there are two.
func TestReplicaForEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := modelOf(t)
		workers, o := workersOf(t, m, 2), optionsOf(t, m)
		hosts := map[string]string{}
		for i := range workers {
			workers[i].Capacity = 0
			hosts[workers[i].ID] = workers[i].Host
		}
		o.Replicas, o.ReplicaBytes = 2, 0
		plan, err := Compute(1, m, workers, o)
		if err != nil {
			t.Fatal(err)
		}
		several := slices.ContainsFunc(workers, func(w Worker) bool { return w.Host != workers[0].Host })
		for _, layer := range m.Layers {
			for item, ids := range plan.Owners[layer] {
				if len(ids) != 2 || several && hosts[ids[0]] == hosts[ids[1]] {
					t.Fatalf("part %d of layer %d has owners %v on hosts %v", item, layer, ids, hosts)
				}
			}
		}
	})
}

// TestHottestReplicas: with little memory the experts that are chosen most get a second owner.
func TestHottestReplicas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 30).Draw(t, "experts")
		m := Model{Layers: []int{0}, Experts: n, Parts: 1, PartBytes: []int64{1000}, TopK: 1}
		counts := make([]float64, n)
		for i, e := range rapid.Permutation(make([]int, n)).Draw(t, "order") {
			counts[i] = float64(1000 + 100*i + e)
		}
		replicas := rapid.IntRange(0, n).Draw(t, "replicas")
		workers := []Worker{{ID: "a", Host: "a"}, {ID: "b", Host: "b"}, {ID: "c", Host: "c"}}
		plan, err := Compute(1, m, workers, Options{Counts: map[int][]float64{0: counts}, Replicas: 2, ReplicaBytes: int64(replicas)*1000 + 1})
		if err != nil {
			t.Fatal(err)
		}
		for e, ids := range plan.Owners[0] {
			want := 1
			if e >= n-replicas {
				want = 2
			}
			if len(ids) != want {
				t.Fatalf("expert %d of %d has owners %v, memory is for %d replicas", e, n, ids, replicas)
			}
		}
	})
}

// TestSlowWorker: load follows bandwidth.
func TestSlowWorker(t *testing.T) {
	t.Parallel()
	m := Model{Layers: []int{0}, Experts: 120, Parts: 1, PartBytes: []int64{1000}, TopK: 8}
	plan, err := Compute(1, m, []Worker{{ID: "a", Host: "a", Bandwidth: 3e10}, {ID: "b", Host: "b", Bandwidth: 1e10}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(plan.Owned["a"][0]); n != 90 {
		t.Fatalf("the worker of three quarters of the bandwidth has %d of 120 experts", n)
	}
}
