package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
)

// TestResidentWorker: a worker with room for 10 of its expert parts warms them before it is ready, computes the same sums, tells of each change of
// what it has, and leaves a trace and a profile, with which the next one begins.
func TestResidentWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("qwen3_moe"))
	identity, ref := b.identity(kernels.Q8, 2), b.reference(kernels.Q8, 2)
	layers := shard.Whole(b.model.Config(), 2)
	page := int64(os.Getpagesize())
	part := (int64(ref.Plan().Shapes[0].Bytes()) + page - 1) / page * page
	o := b.options("w0")
	o.ArenaDir = t.TempDir()
	trace := filepath.Join(t.TempDir(), "trace")
	o.Residency = Residency{Limit: 10 * part, Warm: WarmAll, Trace: trace}
	end := b.start(o)
	b.awaitState("w0", transport.StateIdle)
	if err := b.assign("w0", 1, 1, identity, layers); err != nil {
		t.Fatal(err)
	}
	ready := b.await("ready", "w0", func(b *transport.Beat) bool { return b.State == transport.StateReady && len(b.Resident) > 0 })
	if r := ready.Residency; r.Limit != 10*part || r.Eviction != residency.Default.String() || r.Resident == 0 || r.Resident > r.Limit || r.Warm != "all" || r.WarmDone != r.WarmTotal ||
		r.WarmTotal == 0 || r.WarmTotal > r.Limit || r.GhostBytes != 0 {
		t.Errorf("%+v", r)
	}
	before := fmt.Sprint(ready.Resident)
	for i := range 6 {
		w := ref.work(t, 1, 1, layers[i%len(layers)].Layer, 1, 4, uint32(6+i), 15)
		r, err := b.ask("w0", w)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(r.Sum) != ref.sum(t, w) {
			t.Errorf("work %d: the sums differ", i)
		}
	}
	// The ledger counts a work when it begins, its layer when it ends: a beat may come in between.
	counted := func(b *transport.Beat) (n uint64) {
		for _, l := range b.LayerTimes {
			n += l.Hits + l.Misses
		}
		return n
	}
	told := b.await("another bitmap", "w0", func(b *transport.Beat) bool {
		return len(b.Resident) > 0 && fmt.Sprint(b.Resident) != before && counted(b) == 24
	})
	if r := told.Residency; r.Hits+r.Misses != 24 || r.Evictions == 0 || r.MissBytes == 0 || r.GhostBytes != r.MissBytes || r.Resident > r.Limit {
		t.Errorf("%+v", r)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(trace)
	if err != nil || !strings.Contains(string(text), `"w0"`) || strings.Count(string(text), `"op":"work"`) != 6 || !strings.Contains(string(text), `"op":"end"`) {
		t.Errorf("trace: %v\n%s", err, text)
	}
	folder := ArenaFolder(o.ArenaDir, identity.ModelDigest, kernels.Q8, 2, "w0")
	heats, err := readProfile(folder, identity.ModelDigest, 2, 99, 999)
	if err != nil || len(heats) == 0 || heats[0].Heat != 1 {
		t.Fatalf("profile %v, %v", heats, err)
	}

	o.Residency = Residency{Limit: 4 * part, Warm: WarmHottest}
	end = b.start(o)
	b.awaitState("w0", transport.StateIdle)
	if err := b.assign("w0", 1, 1, identity, layers); err != nil {
		t.Fatal(err)
	}
	again := b.await("ready again", "w0", func(b *transport.Beat) bool {
		return b.State == transport.StateReady && len(b.Resident) > 0 && b.Instance != ready.Instance
	})
	has := func(p residency.Part) bool {
		i := slices.IndexFunc(again.Resident, func(l transport.LayerBitmap) bool { return l.Layer == p.Layer })
		return i >= 0 && again.Resident[i].Bits[p.ID/8]>>(p.ID%8)&1 != 0
	}
	for i, h := range heats[:4] {
		if !has(h.Part) {
			t.Errorf("the profile's part %d, %+v, is not in memory: %v", i, h, again.Resident)
		}
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

// TestLimitWithoutFiles: anonymous memory can't be evicted; that is said, and nothing else changes.
func TestLimitWithoutFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	o := b.options("w0")
	o.Residency = Residency{Limit: 1 << 20, Trace: filepath.Join(t.TempDir(), "trace")}
	b.start(o)
	beat := b.awaitState("w0", transport.StateIdle)
	if beat.Residency.Limit != 0 || !slices.ContainsFunc(beat.Notes, func(n string) bool { return strings.Contains(n, "resident limit of 1.0 MiB") }) {
		t.Errorf("%+v, notes %q", beat.Residency, beat.Notes)
	}
	if _, err := os.Stat(o.Residency.Trace); err == nil {
		t.Error("a trace without a ledger")
	}
}
