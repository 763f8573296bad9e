package cluster

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

// A few names, so that commands meet each other.
var (
	names      = rapid.SampledFrom([]string{"w0", "w1", "w2", "W-3", "a_b"})
	identities = rapid.Custom(func(t *rapid.T) transport.Identity {
		return transport.Identity{Protocol: 3, Build: rapid.SampledFrom([]string{"", "v1", "v2"}).Draw(t, "build"),
			ModelDigest: rapid.SampledFrom([]string{"d0", "d0", "d1"}).Draw(t, "digest"), Format: "q8", Parts: 1, Layout: 1}
	})
	workers = rapid.Custom(func(t *rapid.T) Worker {
		return Worker{ID: names.Draw(t, "id"), Host: rapid.SampledFrom([]string{"", "hä", "h1"}).Draw(t, "host"), Node: rapid.IntRange(-1, 3).Draw(t, "node")}
	})
	plans = rapid.Custom(func(t *rapid.T) *placement.Plan {
		ids := rapid.SliceOfNDistinct(names, 1, 3, rapid.ID[string]).Draw(t, "workers")
		slices.Sort(ids)
		p := &placement.Plan{Epoch: rapid.Uint64Range(1, 6).Draw(t, "epoch"), Owners: map[int][][]string{}}
		for _, layer := range rapid.SliceOfNDistinct(rapid.IntRange(0, 300), 0, 3, rapid.ID[int]).Draw(t, "layers") {
			parts := make([][]string, rapid.IntRange(0, 5).Draw(t, "parts"))
			for i := range parts {
				parts[i] = rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, len(ids), rapid.ID[string]).Draw(t, "owners")
			}
			p.Owners[layer] = parts
		}
		p.Owned = owned(p.Owners, ids)
		return p
	})
	settings = rapid.MapOfN(rapid.SampledFrom([]string{"expert-budget", "on-missing", "x"}), rapid.StringN(0, 5, 20), 0, 3)
	commands = rapid.Custom(func(t *rapid.T) Command {
		switch kind(rapid.Uint64Range(1, uint64(kindCommitPlan)).Draw(t, "kind")) {
		case kindTakeLead:
			return &TakeLead{Coordinator: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "coordinator")}
		case kindSetManifest:
			return &SetManifest{Manifest: identities.Draw(t, "manifest")}
		case kindAdmitWorkers:
			return &AdmitWorkers{Workers: rapid.SliceOfN(workers, 0, 4).Draw(t, "workers")}
		case kindRemoveWorker:
			return &RemoveWorker{Worker: names.Draw(t, "worker")}
		case kindMarkDrain:
			return &MarkDrain{Worker: names.Draw(t, "worker"), Drained: rapid.Bool().Draw(t, "drained")}
		case kindChangeSettings:
			return &ChangeSettings{Settings: settings.Draw(t, "settings")}
		case kindCommitPlan:
			return &CommitPlan{Plan: plans.Draw(t, "plan")}
		}
		panic("a kind without a generator")
	})
)

// entries draws a log: terms never fall, some commands are for a term, most of those for their own.
func entries(t *rapid.T) []Entry {
	var log []Entry
	index, term := uint64(0), uint64(1)
	for i := range rapid.IntRange(1, 25).Draw(t, "entries") {
		index += rapid.Uint64Range(1, 3).Draw(t, "gap") // raft's own entries lie between
		term += rapid.SampledFrom([]uint64{0, 0, 0, 1, 4}).Draw(t, "new term")
		valid := rapid.SampledFrom([]uint64{0, term, term, term + 1}).Draw(t, "for term")
		data, err := Encode(commands.Draw(t, fmt.Sprint("command ", i)), valid)
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, Entry{Index: index, Term: term, Data: data})
	}
	return log
}
